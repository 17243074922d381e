"""The origin of a request: its machine, its host name, and the site of its page."""

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
"""Headers set by proxies, and one that every webhook carries: the client behind them is not on this
machine."""
FORWARDED = b"\nx-forwarded"
"""Prefix of other such headers: X-Forwarded-For, -Host, -Proto, -Port and so on."""
OTHER_PAGES = (b"cross-site", b"same-site")
"""Values of Sec-Fetch-Site for a request by a page of another origin."""
Headers = Mapping[bytes, bytes]
"""Raw headers by lower-case name; every request is checked, so this has to be fast."""


@lru_cache(1000)
def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only; the only such name is localhost."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_passed_on(headers: Headers) -> bool:
    """Whether a proxy or a webhook sent the request: its address does not identify the caller."""
    if not PASSED_ON.isdisjoint(headers):
        return True
    return FORWARDED in b"\n".join((b"", *headers))


def text(headers: Headers, name: bytes) -> str | None:
    """A header as text, if there is one."""
    found = headers.get(name)
    return None if found is None else found.decode("latin-1")


class Names:
    """The host names by which the server may be called.

    A site can point its own DNS name at this machine, and its page then counts as same-origin; but
    its name is in the Host header. Addresses cannot be rebound, so all are allowed.
    """

    def __init__(self, settings: Settings) -> None:
        self._added = frozenset(settings.allowed_hosts.lower().replace(",", " ").split())
        own = {"localhost", settings.host.lower()}
        if not is_loopback(settings.host):
            own.add(machine_name().lower())
        self._names = self._added | own
        self._pages = Cors.of(settings)

    def allow(self, host: str | None) -> bool:
        """Whether a Host header names this server."""
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
        """Whether the request is not by a page that is allowed only because all are.

        Nor by one that hides its origin: it might read the response from a cache.
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
        # Behind a proxy the Host header may differ from the host of the page.
        host = text(headers, b"host") or ""
        return netloc == host.lower() or _name(netloc) in self._added


@lru_cache(1000)
def _name(host: str | None) -> str | None:
    """The name in a Host header, without the port; None if it is not valid."""
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
