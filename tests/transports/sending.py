"""Single attempts without a store: a client on a virtual clock, names that lead here or nowhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import duly
from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Outcome
from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.domain.endpoints.webhooks import decode_webhook, encode_webhook
from duly.system import is_resolver_trouble, open_socket
from duly.testing import VirtualClock
from duly.transports.webhooks.egress import Guard
from duly.transports.webhooks.endpoint_cache import EndpointCache
from duly.transports.webhooks.sender import Webhooks

Lookup = Callable[[str], object]


class Attempt(msgspec.Struct):
    """As much of an execution as a transport looks at."""

    claimed: Claimed
    target: str
    started_at: Any
    task: Any
    namespace: str = "default"

    def now(self) -> Any:
        """It takes no time."""
        return self.started_at

    async def begin(self) -> Any:
        """No store, no transaction."""
        raise AssertionError("webhooks take no transaction")


class Sender:
    """Sends to whatever URL it is told."""

    def __init__(self, clock: VirtualClock, webhooks: Webhooks, timeout: float) -> None:
        self._clock = clock
        self._webhooks = webhooks
        self._timeout = timeout

    async def send(self, url: str) -> Outcome:
        """What came of one attempt."""
        return await self.send_stored(encode_webhook(duly.webhook(url, timeout=self._timeout)))

    async def send_stored(self, address: str) -> Outcome:
        """What came of one attempt at a webhook as the store has it."""
        now = self._clock.now()
        claimed = Claimed(
            *("0190-a", 1, 7, 3, b"{}", 0, 5, 0, now, now, None, None, None, None), address
        )
        origin = decode_webhook(address).origin
        attempt = Attempt(claimed, origin, now, asyncio.current_task())
        return await self._webhooks.attempt(attempt)


class NoEndpoints:
    """A book with nothing in it."""

    async def some(self, names: Collection[str]) -> list[StoredEndpoint]:
        return []


@asynccontextmanager
async def sender(
    clock: VirtualClock, opening: Callable[[int], object] = lambda _: None, timeout: float = 10
) -> AsyncIterator[Sender]:
    """A client of its own; `opening` is called with the family of each socket before it is made."""

    def opened(family: int, *kind: int) -> Any:
        opening(family)
        return open_socket(family, *kind)

    cache = EndpointCache(
        NoEndpoints(), clock, lambda sealed, _: sealed.text, lambda _: None, "default"
    )
    webhooks = Webhooks(clock, Guard(["127.0.0.1/32"]), is_resolver_trouble, opened, cache)
    try:
        yield Sender(clock, webhooks, timeout)
    finally:
        await webhooks.close()


def timing_of(outcome: Any) -> dict[str, float]:
    """The parts that the attempt's record tells."""
    found: dict[str, float] = json.loads(outcome.answer)["timing"]
    return found


def names_lead_to(
    monkeypatch: pytest.MonkeyPatch, *addresses: str, lookup: Lookup = lambda _: None
) -> None:
    """Every name has these addresses, after `lookup`, which may raise what a resolver would."""

    async def resolve(_: Any, host: str, port: int = 0, family: Any = 0) -> list[dict[str, Any]]:
        lookup(host)
        known = {"hostname": host, "port": port, "family": 0, "proto": 6, "flags": 0}
        return [known | {"host": each} for each in addresses]

    monkeypatch.setattr("aiohttp.resolver.ThreadedResolver.resolve", resolve)
