"""Single attempts without a store: a client with a virtual clock and a fake resolver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import duly
from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Outcome
from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.domain.endpoints.webhooks import decode_webhook, encode_webhook
from duly.domain.moments import microseconds
from duly.system import is_resolver_trouble, look_up, open_socket
from duly.testing import VirtualClock
from duly.transports.webhooks.connections import Connections
from duly.transports.webhooks.egress import Guard
from duly.transports.webhooks.endpoint_cache import EndpointCache
from duly.transports.webhooks.resolver import AddressInfo, LookUp
from duly.transports.webhooks.sender import Webhooks

Lookup = Callable[[str], object]
resolver: LookUp = look_up


class Attempt(msgspec.Struct):
    """The parts of an execution that a transport uses."""

    claimed: Claimed
    target: str
    started_at: Any
    task: Any
    namespace: str = "default"

    @property
    def started_us(self) -> int:
        """The start in microseconds."""
        return microseconds(self.started_at)

    def now(self) -> Any:
        """The start: an attempt takes no time."""
        return self.started_at

    async def begin(self) -> Any:
        """There is no store, so there is no transaction."""
        raise AssertionError("webhooks take no transaction")


class Sender:
    """Sends single webhooks to any URL."""

    def __init__(self, clock: VirtualClock, webhooks: Webhooks, timeout: float) -> None:
        self._clock = clock
        self._webhooks = webhooks
        self._timeout = timeout

    @property
    def connections(self) -> Connections:
        """Its connections, once it has sent something."""
        found = self._webhooks._exchanges._connections
        assert found is not None
        return found

    async def send(self, url: str, payload: bytes = b"{}", **options: Any) -> Outcome:
        """Make one attempt; returns its outcome."""
        webhook = duly.webhook(url, timeout=self._timeout, **options)
        return await self.send_stored(encode_webhook(webhook), payload)

    async def send_stored(self, address: str, payload: bytes = b"{}") -> Outcome:
        """Make one attempt of a webhook in its stored form; returns its outcome."""
        now = self._clock.now()
        claimed = Claimed(
            *("0190-a", 1, 7, 3, payload, 0, 5, 0, now, now, None, None, None, None), address
        )
        origin = decode_webhook(address).origin
        attempt = Attempt(claimed, origin, now, asyncio.current_task())
        return await self._webhooks.attempt(attempt)


class NoEndpoints:
    """A store without endpoints."""

    async def some(self, names: Collection[str]) -> list[StoredEndpoint]:
        return []


@asynccontextmanager
async def sender(
    clock: VirtualClock,
    opening: Callable[[int], object] = lambda _: None,
    timeout: float = 10,
    allowed: str = "127.0.0.1/32",
    carried: Callable[[], Mapping[str, str]] = dict,
) -> AsyncIterator[Sender]:
    """A new client; `opening` is called with the family of each socket before it is opened."""

    def opened(family: int, *kind: int) -> Any:
        opening(family)
        return open_socket(family, *kind)

    cache = EndpointCache(
        NoEndpoints(), clock, lambda sealed, _: sealed.text, lambda _: None, "default"
    )
    webhooks = Webhooks(
        clock, Guard([allowed]), resolver, is_resolver_trouble, opened, cache, carried
    )
    try:
        yield Sender(clock, webhooks, timeout)
    finally:
        await webhooks.close()


def timing_of(outcome: Any) -> dict[str, float]:
    """The timing in the record of the attempt."""
    found: dict[str, float] = json.loads(outcome.answer)["timing"]
    return found


def names_lead_to(
    monkeypatch: pytest.MonkeyPatch, *addresses: str, lookup: Lookup = lambda _: None
) -> None:
    """Let every name have these addresses, after `lookup`, which may raise errors of a resolver."""

    async def found(host: str, port: int) -> list[AddressInfo]:
        lookup(host)
        return [info for each in addresses for info in await look_up(each, port)]

    monkeypatch.setattr("duly.composition.look_up", found)
    monkeypatch.setattr("tests.transports.sending.resolver", found)
