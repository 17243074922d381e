"""Where a request comes from: from this machine, under which name, from whose page."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from duly.domain.endpoints.signatures import ID
from duly.settings import Settings
from duly.surfaces.http.access.cors import Cors
from duly.system import machine_name

ANY = "*"
PASSED_ON = frozenset(
    (
        *(b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip"),
        *(b"client-ip", b"proxy-client-ip", b"wl-proxy-client-ip", b"true-client-ip"),
        *(b"cf-connecting-ip", b"cf-connecting-ipv6", b"cf-ray", b"cdn-loop"),
        *(b"fastly-client-ip", b"fly-client-ip", b"do-connecting-ip", b"x-nf-client-connection-ip"),
        *(b"x-appengine-user-ip", b"x-azure-clientip", b"x-azure-socketip"),
        *(b"x-envoy-external-address", b"x-original-forwarded-for", b"x-original-host"),
        *(b"x-vercel-forwarded-for", b"x-amz-cf-id", b"x-arr-log-id", b"x-proxyuser-ip"),
        ID.encode(),
    )
)
"""Headers by which a proxy says that somebody else asks, and the one that every webhook carries:
whoever has a webhook sent here is not on this machine."""
FORWARDED = b"\nx-forwarded"
"""How the names of the others begin: X-Forwarded-For, -Host, -Proto, -Port and so on."""
OTHER_PAGES = (b"cross-site", b"same-site")
"""What a browser says of the site when a page of another origin asks."""
Headers = Mapping[bytes, bytes]
"""As they came, by their names in lower case: every request is looked at, so it has to be quick."""


@lru_cache(1000)
def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only; of names only localhost is."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_passed_on(headers: Headers) -> bool:
    """Whether a proxy or a webhook brings the request: its address says nothing of who asks."""
    if not PASSED_ON.isdisjoint(headers):
        return True
    return FORWARDED in b"\n".join((b"", *headers))


def text(headers: Headers, name: bytes) -> str | None:
    """A header as text, if there is one."""
    found = headers.get(name)
    return None if found is None else found.decode("latin-1")


class Names:
    """The names under which the port may be called.

    A page on the internet can let its own name point here, and then ask as if it were ours; its
    name still stands in the request. An address cannot be pointed anywhere, so any will do.
    """

    def __init__(self, settings: Settings) -> None:
        self._added = frozenset(settings.allowed_hosts.lower().replace(",", " ").split())
        own = {"localhost", settings.host.lower()}
        if not is_loopback(settings.host):
            own.add(machine_name().lower())
        self._names = self._added | own
        self._pages = Cors.of(settings)

    def allow(self, host: str | None) -> bool:
        """Whether a Host header names this port."""
        name = _name(host)
        if name is None:
            return False
        return ANY in self._added or name in self._names or _is_address(name)

    def are_foreign(self, headers: Headers) -> bool:
        """Whether the request was made by another site's page."""
        origin = text(headers, b"origin")
        if origin is None:
            return headers.get(b"sec-fetch-site") == b"cross-site"
        if self._pages is not None and self._pages.allows(origin):
            return False
        return not self._is_own(origin, headers)

    def let_in_by_name(self, headers: Headers) -> bool:
        """Whether nobody asks for a page that is let in only because every page is.

        Nor for one that hides its origin: what it cannot read now it might read from a cache.
        """
        if self._pages is None:
            return True
        origin = text(headers, b"origin")
        if origin is None:
            return headers.get(b"sec-fetch-site") not in OTHER_PAGES
        if self._pages.names(origin):
            return True
        return not self._pages.allows(origin) or self._is_own(origin, headers)

    def _is_own(self, origin: str, headers: Headers) -> bool:
        netloc = origin.lower().partition("://")[2]
        # Behind a proxy the Host may be another than the one that the page was loaded from.
        host = text(headers, b"host") or ""
        return netloc == host.lower() or _name(netloc) in self._added


@lru_cache(1000)
def _name(host: str | None) -> str | None:
    """The name in a Host header, without its port; None when it is none."""
    try:
        found = urlsplit(f"//{host or ''}").hostname
    except ValueError:
        return None
    return found.rstrip(".") if found else None


@lru_cache(1000)
def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
