"""Which addresses may be called: asked of the socket itself, so that no name can lead elsewhere."""

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
            "168.63.129.16/32",  # a public address, but on Azure the platform's own services
            *("::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23"),
            *("2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10"),
            "ff00::/8",
        ),
    )
)
"""Not for the public: this host, private and shared networks, link-local with the metadata of
clouds, NAT64 of local use, documentation, benchmarking, multicast, and what is reserved."""

EMBEDDING = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
"""Networks whose last 32 bits are an IPv4 address: IPv4-compatible, IPv4-translated and NAT64."""
ISATAP, ISATAP_MASK = 0x00005EFE, 0xFCFFFFFF
"""What stands before an IPv4 address of ISATAP, and which bits of that are fixed."""


class AddressRefused(OSError):
    """The address is guarded, and nothing allows it.

    An OSError, so that a client with several addresses goes on to the next.
    """


class Guard:
    """Refuses addresses that are not for the public, except those on its list.

    The addresses that this process itself listens on are refused whatever the list says: a
    webhook must not call the server that sends it. `is_here` says whether an address is one of
    this machine's.
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
        """From now on this process listens there."""
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
            self._hosts.add(entry.lower().rstrip("."))

    def check(self, address: str, port: int | None, host: str | None = None) -> None:
        """Let the address pass, or AddressRefused; `host` is the name that led to it."""
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
            # Whoever connects to the unspecified address reaches this machine.
            if each == listening or each.is_unspecified:
                return True
            if listening.is_unspecified and (each.is_loopback or self._is_here(str(each))):
                return True
        return False

    def _is_allowed(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    def _is_guarded(self, address: Address) -> bool:
        return not self._is_allowed(address) and any(address in each for each in GUARDED)


class Passage:
    """The way of one exchange through the guard; it is refused if none of its addresses passed."""

    def __init__(self, host: str | None = None) -> None:
        self._host = host
        self._is_open = False
        self._refused: AddressRefused | None = None

    def check(self, guard: Guard, address: str, port: int) -> None:
        """Let the address pass, or AddressRefused."""
        try:
            guard.check(address, port, self._host)
        except AddressRefused as error:
            self._refused = error
            raise
        self._is_open = True

    def refusal(self) -> AddressRefused | None:
        """Why it was refused; the client's own error for several addresses does not tell."""
        return None if self._is_open else self._refused


def hidden_in(address: Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that an IPv6 address leads to: mapped, 6to4, Teredo, NAT64 and such.

    NAT64 of local use (64:ff9b:1::/48) is not among them: where in it the address stands is up to
    the network, so all of it is guarded.
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
    """The address that a host stands for by itself, also in the odd spellings of old resolvers."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(name.partition("%")[0]))
    except ValueError:
        return _old_spelling(name)


def _old_spelling(name: str) -> str | None:
    """One to four numbers, decimal, octal or hexadecimal, the last of which fills what is left."""
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
