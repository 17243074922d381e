"""Looking up the addresses of hosts, and whose fault it is when that fails.

A name that cannot be looked up for now may be the endpoint's fault (its name servers are away) or
ours (our resolver is). Only another name can tell: if one was found lately, our resolver works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from duly.transports.webhooks.timing import mark

LATELY_SECONDS = 60.0


class ResolverAway(OSError):
    """No name was found lately: nothing is known of the endpoint, so it is not to blame."""


class Resolver(AbstractResolver):
    """The system's own resolver, watched; `is_trouble` says whether an error is about no name."""

    def __init__(
        self, monotonic: Callable[[], float], is_trouble: Callable[[OSError], bool]
    ) -> None:
        self._monotonic = monotonic
        self._is_trouble = is_trouble
        # Two suffice: whichever name fails, the last one found that is another is among them.
        self._found: list[tuple[str, float]] = []

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        """The host's addresses; ResolverAway if it is not the host's fault that there are none."""
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
        return any(name != host and found_at >= since for name, found_at in self._found)

    def _remember(self, host: str) -> None:
        others = [each for each in self._found if each[0] != host]
        self._found = [*others[-1:], (host, self._monotonic())]

    async def close(self) -> None:
        """Nothing is held."""
