"""Decides which addresses may be called, at the socket, so that DNS cannot bypass the check."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable

from duly.errors import InvalidInput

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

GUARDED = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
            *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
            *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            "168.63.129.16/32",  # a public address, but used by the Azure platform's services
            *("::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23"),
            *("2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10"),
            "ff00::/8",
        ),
    )
)
"""Networks that are not public: this host, private and shared networks, link-local with cloud
metadata, local-use NAT64, documentation, benchmarking, multicast and reserved ones."""

EMBEDDING = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
"""Networks whose last 32 bits are an IPv4 address: IPv4-compatible, IPv4-translated and NAT64."""
ISATAP, ISATAP_MASK = 0x00005EFE, 0xFCFFFFFF
"""The 32 bits before the IPv4 address in an ISATAP address, and the mask of the fixed bits."""


class AddressRefused(OSError):
    """The address may not be called.

    An OSError, so that the client tries a host's next address.
    """


class Guard:
    """Refuses addresses that are not public, except the `allowed` networks and hosts.

    The addresses that this process listens on are always refused: a webhook must not call the
    server that sends it. `is_here` says whether an address belongs to this machine.
    """

    def __init__(
        self, allowed: Iterable[str] = (), is_here: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._networks: list[Network] = []
        self._hosts: set[str] = set()
        self._listening: dict[int, Address] = {}
        self._is_here = is_here
        for entry in allowed:
            self._allow(entry.strip())

    def refuse_own(self, address: str, port: int) -> None:
        """Refuse this address from now on, because this process listens on it."""
        found = ipaddress.ip_address(address.partition("%")[0])
        mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
        self._listening[port] = mapped or found

    def _allow(self, entry: str) -> None:
        try:
            self._networks.append(ipaddress.ip_network(entry))
        except ValueError:
            if not entry or "/" in entry or any(each.isspace() for each in entry):
                raise InvalidInput(
                    "egress_allow", f"{entry!r} is neither a network, as in 10.0.0.0/8, nor a host"
                ) from None
            self._hosts.add(_ascii(entry.lower().rstrip(".")))

    def check(self, address: str, port: int | None, host: str | None = None) -> None:
        """Raise AddressRefused unless the address may be called; `host` is its name in the URL."""
        found = ipaddress.ip_address(address.partition("%")[0])
        if port in self._listening and self._is_own(found, self._listening[port]):
            raise AddressRefused(
                f"{address} port {port} is this server's own address: a webhook cannot call the "
                "server that sends it"
            )
        if host is not None and host.lower().rstrip(".") in self._hosts:
            return
        if self._is_allowed(found):
            return
        for each in (found, *hidden_in(found)):
            if self._is_guarded(each):
                raise AddressRefused(
                    f"{address} is not for the public; allow it with DULY_EGRESS_ALLOW={address}, "
                    "here and for the server, or with egress_allow in duly.toml"
                )

    def _is_own(self, address: Address, listening: Address) -> bool:
        for each in (address, *hidden_in(address)):
            # A connection to the unspecified address reaches this machine.
            if each == listening or each.is_unspecified:
                return True
            if listening.is_unspecified and (each.is_loopback or self._is_here(str(each))):
                return True
        return False

    def _is_allowed(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    def _is_guarded(self, address: Address) -> bool:
        return not self._is_allowed(address) and any(address in each for each in GUARDED)


def _ascii(host: str) -> str:
    """The host as a URL names it."""
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


class Passage:
    """The guard's decisions in one exchange; it is refused if all its addresses were."""

    def __init__(self, host: str | None = None) -> None:
        self._host = host
        self._any_allowed = False
        self._refused: AddressRefused | None = None

    def check(self, guard: Guard, address: str, port: int) -> None:
        """Raise AddressRefused unless the guard allows the address."""
        try:
            guard.check(address, port, self._host)
        except AddressRefused as error:
            self._refused = error
            raise
        self._any_allowed = True

    def refusal(self) -> AddressRefused | None:
        """The refusal if no address was allowed; the client's error does not contain it."""
        return None if self._any_allowed else self._refused


def hidden_in(address: Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses embedded in an IPv6 address: mapped, 6to4, Teredo, NAT64 and others.

    Local-use NAT64 (64:ff9b:1::/48) is not decoded: the position of the IPv4 address depends on the
    network, so all of it is guarded.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return []
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in EMBEDDING):
        found.append(last)
    if (int(address) >> 32) & ISATAP_MASK == ISATAP:
        found.append(last)
    return [each for each in found if each is not None]


NUMBER = re.compile(r"0x[0-9a-f]{0,8}|[0-9]{1,11}")


def literal_address(host: str) -> str | None:
    """The address that a host denotes without DNS, including legacy forms such as `0x7f.1`."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(name.partition("%")[0]))
    except ValueError:
        return _legacy_form(name)


def _legacy_form(name: str) -> str | None:
    """One to four decimal, octal or hexadecimal numbers; the last fills the remaining bytes."""
    parts = name.split(".")
    if len(parts) > 4 or not all(NUMBER.fullmatch(part) for part in parts):
        return None
    try:
        *leading, last = [_number(part) for part in parts]
    except ValueError:
        return None
    if any(each > 255 for each in leading) or last >= 256 ** (5 - len(parts)):
        return None
    total = sum(each << (8 * (3 - index)) for index, each in enumerate(leading)) + last
    return str(ipaddress.IPv4Address(total))


def _number(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") and text != "0" else int(text)
