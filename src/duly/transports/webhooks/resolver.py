"""Looks up the addresses of hosts, and decides whether a failure is the endpoint's fault.

A temporary failure may be the endpoint's fault (its name servers do not respond) or ours (our
resolver does not). If another name was found recently, our resolver works.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

LATELY_SECONDS = 60.0
KEPT_SECONDS = 10.0
"""How long the addresses of a name are used without another lookup."""
MOST_KEPT = 1000
AddressInfo = tuple[Any, ...]
"""Family, kind, protocol, name and socket address, as `socket.getaddrinfo` returns them."""
LookUp = Callable[[str, int], Awaitable[list[AddressInfo]]]
Place = tuple[str, int]
"""Host and port."""


class ResolverAway(OSError):
    """No other name was found recently, so the failure is not counted against the endpoint."""


class Resolver:
    """The system's resolver; `is_trouble` says whether an error may be the resolver's own."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        look_up: LookUp,
        is_trouble: Callable[[OSError], bool],
    ) -> None:
        self._monotonic = monotonic
        self._look_up = look_up
        self._is_trouble = is_trouble
        # The last two names found suffice: at least one differs from the name that failed.
        self._recently_found: list[tuple[str, float]] = []
        self._kept: dict[Place, tuple[float, list[AddressInfo]]] = {}
        self._lookups: dict[Place, asyncio.Task[list[AddressInfo]]] = {}

    def known(self, host: str, port: int) -> list[AddressInfo] | None:
        """The addresses of a name that was found a moment ago, or None."""
        found_at, found = self._kept.get((host, port), (0.0, None))
        return found if self._monotonic() - found_at < KEPT_SECONDS else None

    async def resolve(self, host: str, port: int) -> list[AddressInfo]:
        """The host's addresses; raises ResolverAway if our resolver may be at fault."""
        lookup = self._lookups.get((host, port))
        if lookup is None:
            lookup = asyncio.create_task(self._find(host, port))
            self._lookups[host, port] = lookup
            lookup.add_done_callback(partial(self._end, (host, port)))
        # Requests that wait for the same name share its lookup; the end of one leaves it running.
        return await asyncio.shield(lookup)

    def _end(self, place: Place, lookup: asyncio.Task[list[AddressInfo]]) -> None:
        self._lookups.pop(place, None)
        if not lookup.cancelled():
            lookup.exception()  # perhaps nobody waits for it any more

    async def _find(self, host: str, port: int) -> list[AddressInfo]:
        try:
            found = await self._look_up(host, port)
        except OSError as error:
            if self._is_trouble(error) and not self._found_another(host):
                raise ResolverAway(f"no name can be looked up: {error}") from error
            raise
        if not is_literal(host):
            self._remember(host)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[host, port] = (self._monotonic(), found)
        return found

    def _found_another(self, host: str) -> bool:
        since = self._monotonic() - LATELY_SECONDS
        return any(name != host and found_at >= since for name, found_at in self._recently_found)

    def _remember(self, host: str) -> None:
        others = [each for each in self._recently_found if each[0] != host]
        self._recently_found = [*others[-1:], (host, self._monotonic())]

    def close(self) -> None:
        """End the lookups that nobody waits for any more."""
        for lookup in self._lookups.values():
            lookup.cancel()
        self._lookups.clear()


def is_literal(host: str) -> bool:
    """Whether the host is an address, which needs no lookup."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
