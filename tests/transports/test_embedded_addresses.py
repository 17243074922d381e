"""IPv6 addresses with an embedded IPv4 address are checked by it, in every form."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duly.transports.webhooks.egress import GUARDED, AddressRefused, Guard

pytestmark = pytest.mark.requirement("C7")
Embed = Callable[[int, int], int]
"""Builds the IPv6 address with an embedded IPv4 address and any free bits."""


def under(prefix: str) -> int:
    return int(IPv6Network(prefix).network_address)


def split_at_byte_eight(prefix: str, length: int) -> Embed:
    """RFC 6052: the address follows the prefix, but skips the ninth byte, which is zero."""

    def embed(v4: int, free: int) -> int:
        bits = "".join(
            [f"{under(prefix):0128b}"[:length], f"{v4:032b}", f"{free:064b}"[: 88 - length]]
        )
        return int(f"{bits[:64]}{0:08b}{bits[64:120]}", 2)

    return embed


FORMS: dict[str, Embed] = {
    "mapped": lambda v4, _: under("::ffff:0:0/96") | v4,
    "translated": lambda v4, _: under("::ffff:0:0:0/96") | v4,
    "compatible": lambda v4, _: v4,
    "nat64": lambda v4, _: under("64:ff9b::/96") | v4,
    "local nat64, /96": lambda v4, _: under("64:ff9b:1::/96") | v4,
    "local nat64, /96 of a subnet": lambda v4, free: (
        under("64:ff9b:1::/48") | (free & 0xFFFF_FF00_FFFF) << 32 | v4
    ),
    "local nat64, /64": split_at_byte_eight("64:ff9b:1:7::", 64),
    "local nat64, /56": split_at_byte_eight("64:ff9b:1:700::", 56),
    "local nat64, /48": split_at_byte_eight("64:ff9b:1::", 48),
    "6to4": lambda v4, free: 0x2002 << 112 | v4 << 80 | free,
    "teredo, its server": lambda v4, free: 0x20010000 << 96 | v4 << 64 | free,
    "teredo, its client": lambda v4, free: (
        0x20010000 << 96 | (free & 0xFFFF_FFFF) << 64 | (v4 ^ 0xFFFF_FFFF)
    ),
    **{
        f"isatap {flags:#04x}": lambda v4, free, flags=flags: (
            0x2606_4700 << 96 | (free & 0xFFFF_FFFF) << 64 | flags << 56 | 0x5EFE << 32 | v4
        )
        for flags in (0, 1, 2, 3)
    },
}
NOT_PUBLIC = [each for each in GUARDED if isinstance(each, IPv4Network)]


@st.composite
def addresses_not_for_the_public(draw: st.DrawFn) -> IPv4Address:
    network = draw(st.sampled_from(NOT_PUBLIC))
    return network[draw(st.integers(0, network.num_addresses - 1))]


@given(hidden=addresses_not_for_the_public(), free=st.integers(0, 2**64 - 1))
@example(hidden=IPv4Address("127.0.0.1"), free=0)
@example(hidden=IPv4Address("168.63.129.16"), free=2**64 - 1)
@settings(max_examples=50)
def test_an_embedded_guarded_address_is_refused(hidden: IPv4Address, free: int) -> None:
    for embed in FORMS.values():
        with pytest.raises(AddressRefused):
            Guard().check(str(IPv6Address(embed(int(hidden), free))), 443)


@pytest.mark.parametrize("form", ["mapped", "translated", "nat64", "6to4", "isatap 0x00"])
def test_an_embedded_public_address_is_allowed(form: str) -> None:
    Guard().check(str(IPv6Address(FORMS[form](int(IPv4Address("1.1.1.1")), 0))), 443)


@pytest.mark.parametrize(
    "address",
    [
        *("168.63.129.16", "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192"),
        *("fd00:ec2::254", "fd20:ce::254", "::ffff:0:7f00:1", "::ffff:0:168.63.129.16"),
        *("64:ff9b:1:7f00:0:100::", "64:ff9b:1::7f00:1", "64:ff9b:1:7:7f:0:100:0"),
    ],
)
def test_metadata_and_platform_addresses_are_refused_unless_allowed(address: str) -> None:
    with pytest.raises(AddressRefused):
        Guard(["10.0.0.1"]).check(address, 80)
    Guard([address]).check(address, 80)


def test_addresses_that_python_treats_as_private_are_refused() -> None:
    known = [
        each
        for version in (IPv4Address, IPv6Address)
        for each in version._constants._private_networks  # type: ignore[attr-defined]
    ]
    assert len(known) > 20
    for network in known:
        for address in (network[0], network[-1]):
            if address.is_private:
                with pytest.raises(AddressRefused):
                    Guard().check(str(address), 443)
