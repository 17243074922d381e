"""Looks up the addresses of hosts, and decides whether a failure is the endpoint's fault.

A temporary failure may be the endpoint's fault (its name servers do not respond) or ours (our
resolver does not). If another name was found recently, our resolver works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from duly.transports.webhooks.timing import mark

LATELY_SECONDS = 60.0


class ResolverAway(OSError):
    """No other name was found recently, so the failure is not counted against the endpoint."""


class Resolver(AbstractResolver):
    """The system's resolver; `is_trouble` says whether an error may be the resolver's own."""

    def __init__(
        self, monotonic: Callable[[], float], is_trouble: Callable[[OSError], bool]
    ) -> None:
        self._monotonic = monotonic
        self._is_trouble = is_trouble
        # The last two names found suffice: at least one differs from the name that failed.
        self._recently_found: list[tuple[str, float]] = []

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        """The host's addresses; raises ResolverAway if our resolver may be at fault."""
        try:
            addresses = await ThreadedResolver().resolve(host, port, family)
        except OSError as error:
            if self._is_trouble(error) and not self._found_another(host):
                raise ResolverAway(f"no name can be looked up: {error}") from error
            raise
        mark("dns")
        self._remember(host)
        return addresses

    def _found_another(self, host: str) -> bool:
        since = self._monotonic() - LATELY_SECONDS
        return any(name != host and found_at >= since for name, found_at in self._recently_found)

    def _remember(self, host: str) -> None:
        others = [each for each in self._recently_found if each[0] != host]
        self._recently_found = [*others[-1:], (host, self._monotonic())]

    async def close(self) -> None:
        """Do nothing: it holds no resources."""
