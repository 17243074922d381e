"""Which addresses may be called, in every spelling."""

import pytest

from duly.errors import InvalidInput
from duly.system import is_own_address
from duly.transports.webhooks.egress import AddressRefused, Guard, literal_address

GUARDED = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255"),
    *("192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("198.18.0.1", "192.0.0.8", "203.0.113.9"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "2002:7f00:1::", "2002:a00:1::1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2001:0:7f00:1::"),
    "2606:4700::5efe:127.0.0.1",
]
PUBLIC = ["1.1.1.1", "93.184.215.14", "172.32.0.1", "2606:4700::1111", "64:ff9b::101:101"]


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("address", GUARDED)
def test_private_addresses_are_refused(address: str) -> None:
    with pytest.raises(AddressRefused, match="DULY_EGRESS_ALLOW"):
        Guard().check(address, 443)


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    Guard().check(address, 443)


@pytest.mark.requirement("C7")
def test_a_list_allows_only_its_networks_and_hosts() -> None:
    guard = Guard(["10.1.0.0/16", "::1", "Hooks.Internal"])
    guard.check("10.1.2.3", 80)
    guard.check("::ffff:10.1.2.3", 80)
    guard.check("::1", 80)
    guard.check("192.168.0.9", 80, "hooks.internal.")
    for address, host in (("10.2.0.1", None), ("127.0.0.1", "internal"), ("192.168.0.9", None)):
        with pytest.raises(AddressRefused):
            guard.check(address, 80, host)


@pytest.mark.parametrize("entry", ["10.0.0.0/99", "a/b", "two words", ""])
def test_an_invalid_list_is_refused(entry: str) -> None:
    with pytest.raises(InvalidInput, match="egress_allow"):
        Guard([entry])


@pytest.mark.requirement("C7")
@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("localhost", "127.0.0.1"),
        ("LOCALHOST.", "127.0.0.1"),
        ("my.localhost", "127.0.0.1"),
        ("example.org", None),
        ("127.0.0.1.example.org", None),
        ("256.1.1.1.1", None),
        ("999.1", None),
        ("08.1", None),
    ],
)
def test_an_address_is_recognized_in_every_spelling(host: str, address: str | None) -> None:
    assert literal_address(host) == address


LISTENING = {
    "127.0.0.1": ["127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0", "::", "64:ff9b::7f00:1"],
    "::1": ["::1", "::", "0.0.0.0"],
    "::ffff:127.0.0.1": ["127.0.0.1", "::ffff:127.0.0.1"],
    "192.0.2.7": ["192.0.2.7", "::ffff:192.0.2.7", "0.0.0.0"],
    "0.0.0.0": ["127.0.0.1", "127.8.8.8", "::1", "192.0.2.7", "::ffff:192.0.2.7", "0.0.0.0"],
    "::": ["127.0.0.1", "127.8.8.8", "::1", "192.0.2.7", "fe80::7%eth0", "::", "0.0.0.0"],
}


@pytest.mark.requirement("X3", "C7")
@pytest.mark.parametrize("listening", LISTENING)
def test_the_servers_own_address_is_refused_in_every_form_even_if_allowed(listening: str) -> None:
    guard = Guard(["0.0.0.0/0", "::/0", "here"], {"192.0.2.7", "fe80::7"}.__contains__)
    guard.refuse_own(listening, 8787)
    for address in LISTENING[listening]:
        guard.check(address, 8788, "here")
        with pytest.raises(AddressRefused, match="own address"):
            guard.check(address, 8787, "here")
    guard.check("192.0.2.8", 8787)


@pytest.mark.requirement("X3")
def test_the_addresses_of_this_machine_are_known() -> None:
    assert is_own_address("127.0.0.1")
    assert not is_own_address("192.0.2.254")
    assert not is_own_address("2606:4700::1111")


@pytest.mark.requirement("C7")
def test_a_host_may_be_allowed_in_its_own_script() -> None:
    guard = Guard(["Bücher.example."])
    guard.check("10.0.0.1", 443, "xn--bcher-kva.example")
    with pytest.raises(AddressRefused):
        guard.check("10.0.0.1", 443, "bucher.example")
