"""`duly serve --demo`: gentle sample traffic, so that the dashboard has something to show."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Unpack

from duly.app import App
from duly.domain.deliveries.retry import delays
from duly.domain.endpoints.endpoint import endpoint
from duly.domain.time.rules import cron, every
from duly.engine.stopping import Stop
from duly.errors import Conflict, DulyError, NotFound
from duly.records.dead_letter import DeadLetterFilter
from duly.records.delivery import DeliveryKeywords
from duly.records.endpoint import EndpointKeywords
from duly.records.stream import StreamState
from duly.surfaces.cli.demo.sample_names import (
    CARTS,
    DIGEST,
    FAILING,
    FLAKY,
    HEALTHY,
    HEARTBEAT,
    HOLIDAY,
    INVOICES,
    NIGHTLY,
    PICKY,
    RETURNS,
    SLOW,
    TAG,
)
from duly.surfaces.cli.demo.sample_receiver import sample_receiver

logger = logging.getLogger("duly.demo")
TICK_SECONDS = 1.0
MOST_WAITING, MOST_DEAD = 20, 12
"""Sample deliveries that may wait for the failing endpoint, and be dead letters."""
TOMORROW = 86_400
OPTIONS: dict[str, EndpointKeywords] = {
    HEALTHY: {"description": "sample: answers at once"},
    SLOW: {"description": "sample: takes two seconds", "in_flight": 2},
    FLAKY: {"description": "sample: fails once for each delivery", "retry": delays(3, 10)},
    FAILING: {"description": "sample: always answers 503", "retry": delays(5, 15, 60)},
    PICKY: {"description": "sample: refuses everything with 422", "retry": delays(5)},
}


class SampleTraffic:
    """Makes the endpoints and schedules, then a few deliveries each second."""

    def __init__(self, app: App, stop: Stop) -> None:
        self._app = app
        self._stop = stop

    async def run(self, url: str) -> None:
        """Make traffic until the server stops, or until somebody removes it."""
        try:
            await self._declare(url)
            number = 0
            while not self._stop.is_requested:
                await self._tick(number)
                await self._app.clock.sleep(TICK_SECONDS)
                number += 1
        except DulyError as error:
            if not self._stop.is_requested:
                logger.warning("the sample traffic has ended: %s", error)

    async def _declare(self, url: str) -> None:
        for name, options in OPTIONS.items():
            await self._endpoint(name, f"{url}/{name}", options)
        await self._schedules()
        await self._streams()
        await self._send(HEALTHY, {"reminder": "tomorrow"}, key="demo-tomorrow", after=TOMORROW)

    async def _endpoint(self, name: str, url: str, options: EndpointKeywords) -> None:
        try:
            await self._app.endpoints.add(name, url, **options)
        except Conflict:
            # From an earlier start, when the receiver had another port.
            await self._app.endpoints.edit(name, url=url)

    async def _schedules(self) -> None:
        schedule, target = self._app.schedules.declare, endpoint(HEALTHY)
        await schedule(HEARTBEAT, every("15s"), target, tags=[TAG])
        await schedule(DIGEST, cron("*/5 * * * *"), endpoint(FLAKY), tags=[TAG])
        await schedule(NIGHTLY, cron("0 3 * * *", tz="Europe/Oslo"), target, tags=[TAG])
        await schedule(HOLIDAY, cron("0 9 * * MON", tz="Asia/Tokyo"), target, tags=[TAG])
        await self._app.schedules.pause(HOLIDAY, "sample: on holiday")

    async def _streams(self) -> None:
        """One stream that a dead letter blocks, and one that is paused."""
        if not await self._is_blocked(INVOICES):
            await self._send(PICKY, {"invoice": 0}, stream=INVOICES)
            for number in range(1, 4):
                await self._send(HEALTHY, {"invoice": number}, stream=INVOICES)
        await self._send(HEALTHY, {"return": 1}, stream=RETURNS, key="demo-return", after=5)
        await self._app.streams.pause(RETURNS, "sample: stock-taking")

    async def _is_blocked(self, stream: str) -> bool:
        try:
            return (await self._app.streams.get(stream)).state is StreamState.BLOCKED
        except NotFound:
            return False

    async def _tick(self, number: int) -> None:
        await self._send(HEALTHY, {"page": number})
        await self._send(HEALTHY, {"item": number}, stream=CARTS[number % len(CARTS)])
        if number % 4 == 0:
            await self._send(FLAKY, {"email": number})
        if number % 5 == 0:
            await self._send(SLOW, {"report": number})
        if number % 15 == 0:
            await self._fail(number)

    async def _fail(self, number: int) -> None:
        """Add failures, but no more than a few."""
        tagged = DeadLetterFilter(tag=TAG)
        if await self._app.dead_letters.count(tagged) >= MOST_DEAD:
            return
        await self._send(PICKY, {"address": number})
        if (await self._app.endpoints.get(FAILING)).waiting < MOST_WAITING:
            for _ in range(2):
                await self._send(FAILING, {"payment": number})

    async def _send(self, name: str, payload: Any, **options: Unpack[DeliveryKeywords]) -> None:
        options["tags"] = [TAG]
        await self._app.deliver(endpoint(name), payload, **options)


@asynccontextmanager
async def sample_traffic(app: App, stop: Stop) -> AsyncIterator[Callable[[], None]]:
    """Receive the sample traffic while the block runs; call the result once the app is open.

    The receiver stays until the block ends, for deliveries that a stopping server still sends.
    """
    tasks: list[asyncio.Task[None]] = []
    async with sample_receiver() as url:

        def begin() -> None:
            tasks.append(asyncio.ensure_future(SampleTraffic(app, stop).run(url)))

        yield begin
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
