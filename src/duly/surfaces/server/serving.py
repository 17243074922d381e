"""Serving: the engine's life and the HTTP port's, in an order that loses nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from duly.app import App
from duly.domain.events import StoreCameBack, StoreWentAway
from duly.domain.roles import Role
from duly.engine.stopping import Stop
from duly.engine.supervisor import Engine
from duly.errors import SchemaMismatch, StoreUnavailable
from duly.ports import Clock
from duly.surfaces.process.descriptors import have_descriptors
from duly.surfaces.process.notify import Notices
from duly.surfaces.process.shared_memory import Slot
from duly.system import collect_rarely, end_now, hand_over_quickly, stop_when_orphaned

logger = logging.getLogger("duly.serve")
PATIENCE_SECONDS = 15.0
"""How much longer than its running deliveries a stop may take."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
"""Between two tries to reach the store."""
TELL_SECONDS = 60.0
"""How often it is told that the store is waited for."""
Announce = Callable[[str | None], None]


@dataclass(frozen=True)
class ServerContext:
    """Where a process serves: whom it tells, and if it has a parent, what it has from there."""

    notices: Notices
    socket: Any = None
    """Bound already, and shared with others."""
    lifeline: int | None = None
    """A pipe that ends when the parent does."""
    page: Slot | None = None
    """Where it tells others at the same address how it stands, if there are any."""


class Port(Protocol):
    """What opens last and closes last."""

    url: str | None

    async def start(self, on_end: Callable[[], None]) -> None:
        """Open it."""

    async def stopping(self) -> None:
        """Say so to whoever asks from now on."""

    async def stop(self) -> None:
        """Close it."""


async def serve(
    app: App, place: ServerContext, announce: Announce, stop: Stop, *, waits: bool = False
) -> None:
    """Serve until a stop is wished; `announce` is told the address once the port is open.

    A store that cannot be reached ends the start, unless it `waits` for it.

    The store is opened and migrated, what dead workers held is taken back and the workers run
    before anyone can connect. The process is taken for one of our own: it is tuned, and ended
    where handlers would keep it from ending.
    """
    app.telemetry.process = None if place.page is None else place.page.number
    # Before the store is opened: what a file does not allow is refused before the file is made.
    engine = app.engine()
    hand_over_quickly()
    have_descriptors(app.settings)
    patience = app.settings.drain + PATIENCE_SECONDS
    with stop_when_orphaned(place.lifeline, stop.wish, patience):
        try:
            if await stop.unless_wished(_reached(app) if waits else app.open()):
                await _serve(app, engine, place, announce, stop)
        finally:
            await app.close()


async def _reached(app: App) -> None:
    """Open the store, and as long as it cannot be reached try again after a growing pause."""
    pause, failures, told_at = FIRST_PAUSE, 0, float("-inf")
    while True:
        try:
            await app.open()
            break
        except SchemaMismatch:
            raise
        except StoreUnavailable as error:
            failures += 1
            if app.clock.monotonic() - told_at >= TELL_SECONDS:
                told_at = app.clock.monotonic()
                app.telemetry.emit(StoreWentAway(loop="start", problem=str(error)))
        await app.clock.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
    if failures:
        app.telemetry.emit(StoreCameBack(loop="start", failures=failures))


async def _serve(
    app: App, engine: Engine, place: ServerContext, announce: Announce, stop: Stop
) -> None:
    # Owned before the address is taken, so that a second server on the file hears of the first
    # rather than of its port.
    await app.store.own()
    await _make_first_key(app)
    port = await _port(app, engine, place)
    async with (
        _heartbeat(place.notices, app.clock),
        _running(engine, port, stop, place.notices),
    ):
        announce(port.url)
        place.notices.ready(f"listens on {port.url}" if port.url else "works")
        if Role.WORKER in app.settings.roles:
            await app.webhooks.prepare()
        collect_rarely()
        await stop.wait()
    if engine.running:
        # Nobody else may attempt what still runs here, so the store is let go by the process's end.
        with suppress(StoreUnavailable):
            await app.watch.bookkeeper.tick()
        end_now(0)


async def _make_first_key(app: App) -> None:
    """Create the key in the settings, for containers in which nobody can run a command first."""
    token = app.settings.bootstrap_key
    if not token or Role.API not in app.settings.roles:
        return
    made = await app.keys.bootstrap(token)
    if made is None:
        logger.debug("there are keys already; bootstrap_key is not used")
    else:
        logger.info("created the first key, %s, from bootstrap_key; it may %s", made.id, made.scope)


@asynccontextmanager
async def _running(engine: Engine, port: Port, stop: Stop, notices: Notices) -> AsyncIterator[None]:
    await engine.start(stop.wish)
    try:
        await port.start(stop.wish)
        yield
    finally:
        notices.stopping()
        await port.stopping()
        await engine.stop()
        await port.stop()
    engine.raise_failure()


@asynccontextmanager
async def _heartbeat(notices: Notices, clock: Clock) -> AsyncIterator[None]:
    """Tell from the event loop that it does not hang, if somebody wants to know."""
    if notices.watchdog is None:
        yield
        return
    beating = asyncio.create_task(_beat(notices, notices.watchdog / 2, clock))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(notices: Notices, seconds: float, clock: Clock) -> None:
    while True:
        notices.alive()
        await clock.sleep(seconds)


async def _port(app: App, engine: Engine, place: ServerContext) -> Port:
    if Role.API not in app.settings.roles:
        return NoPort()
    # Imported here: a worker answers nobody, and need not load what could.
    from duly.surfaces.http.port import HttpPort

    return await HttpPort.of(app, engine, place.socket, place.page)


class NoPort:
    """For a process that is called by nobody."""

    url: str | None = None

    async def start(self, on_end: Callable[[], None]) -> None:
        """Nothing opens."""

    async def stopping(self) -> None:
        """Nobody asks."""

    async def stop(self) -> None:
        """Nothing closes."""
