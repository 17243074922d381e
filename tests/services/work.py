"""Handlers that fail on request, and streams in every state."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import duly
from duly import App, Delivery, DeliveryRecord
from duly.records.stream import Stream
from duly.testing import run_until_idle

DEADLINE_SECONDS = 30
NAME = "team:7"
PLAN = duly.delays(60, 60)
"""A plan of three attempts, a minute apart."""


class Work:
    """The handlers `work` and `other`; they record their payloads, and fail on request."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.seen: list[Any] = []
        self.failing: dict[Any, list[Exception]] = defaultdict(list)
        self.events: dict[Any, asyncio.Event] = {}
        self.began: dict[Any, asyncio.Event] = defaultdict(asyncio.Event)
        for name in ("work", "other"):
            app.handler(name, retry=PLAN)(self._handle)

    async def _handle(self, delivery: Delivery[Any]) -> None:
        payload = delivery.payload
        self.seen.append(payload)
        self.began[payload].set()
        if payload in self.events:
            await self.events[payload].wait()
        if self.failing[payload]:
            raise self.failing[payload].pop(0)

    def fails(self, payload: Any, times: int = 1) -> None:
        """Let the delivery with this payload fail this many times."""
        self.failing[payload] += [RuntimeError(f"no {payload}") for _ in range(times)]

    def dies(self, payload: Any) -> None:
        """Let the delivery with this payload be a dead letter at its next attempt."""
        self.failing[payload].append(duly.ValidationFailure(f"bad {payload}"))

    def waits(self, payload: Any) -> asyncio.Event:
        """Let the delivery with this payload run until the event is set."""
        return self.events.setdefault(payload, asyncio.Event())

    async def add(self, *payloads: Any, **options: Any) -> list[str]:
        """Deliver these to the stream, in this order; returns their ids."""
        given = {"target": "work", "stream": NAME} | options
        return [(await self.app.deliver(payload=each, **given)).id for each in payloads]

    async def states(self, *ids: str) -> list[str]:
        """The states of these deliveries."""
        return [str((await self.app.get(id)).state) for id in ids]

    async def stream(self) -> Stream:
        """The stream."""
        return await self.app.streams.get(NAME)

    async def until(self, id: str, state: str) -> DeliveryRecord:
        """The delivery, when it is in this state."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (found := await self.app.get(id)).state != state:
                pass
        return found


@asynccontextmanager
async def running(app: App) -> AsyncIterator[None]:
    """Run the app with a real engine; stop it gracefully at the end."""
    task = asyncio.create_task(app.run(signals=False))
    try:
        yield
    finally:
        app.stop()
        await asyncio.wait_for(task, DEADLINE_SECONDS)


async def until_set(event: asyncio.Event) -> None:
    """Wait until the event is set."""
    await asyncio.wait_for(event.wait(), DEADLINE_SECONDS)


async def retrying(work: Work, **options: Any) -> list[str]:
    """A stream whose head waits for its retry; two wait behind it."""
    work.fails("a")
    ids = await work.add("a", "b", "c", **options)
    await run_until_idle(work.app)
    return ids


async def blocked(work: Work, **options: Any) -> list[str]:
    """A stream whose head is dead; two wait behind it."""
    work.dies("a")
    ids = await work.add("a", "b", "c", **options)
    await run_until_idle(work.app)
    return ids


async def waiting(work: Work) -> list[str]:
    """A stream whose head is not yet due; one waits behind it."""
    return [*await work.add("a", after=30.0), *await work.add("b")]


async def paused(work: Work) -> list[str]:
    """A stream that was paused while its head waited for its retry."""
    ids = await retrying(work)
    await work.app.streams.pause(NAME)
    return ids


async def idle(work: Work) -> list[str]:
    """A stream in which everything is completed."""
    ids = await work.add("a")
    await run_until_idle(work.app, within=1.0)
    return ids
