"""Starts and stops the engine and the HTTP server in an order that loses no work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from duly.app import App
from duly.domain.events import StoreReachable, StoreUnreachable
from duly.domain.roles import Role
from duly.engine.stopping import Stop
from duly.engine.supervisor import Engine
from duly.errors import SchemaMismatch, StoreUnavailable
from duly.ports import Clock
from duly.surfaces.process.descriptors import ensure_descriptors
from duly.surfaces.process.notify import Notices
from duly.surfaces.process.shared_memory import Slot
from duly.system import collect_rarely, end_now, hand_over_quickly, stop_when_orphaned

logger = logging.getLogger("duly.serve")
PATIENCE_SECONDS = 15.0
"""How long a stop may take after the time given to running deliveries."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
"""Seconds between two attempts to reach the store."""
LOG_SECONDS = 60.0
"""Seconds between two log lines while the store cannot be reached."""
Announce = Callable[[str | None], None]


@dataclass(frozen=True)
class ServerContext:
    """The notices of a server process and, if it has a parent, what they share."""

    notices: Notices
    socket: Any = None
    """A bound socket, shared with the other processes."""
    lifeline: int | None = None
    """The read end of a pipe that closes when the parent ends."""
    page: Slot | None = None
    """Where it publishes its metrics to the other processes on the same address."""


class Port(Protocol):
    """The listening port; it opens last and closes last."""

    url: str | None

    async def start(self, on_end: Callable[[], None]) -> None:
        """Open the port; `on_end` is called when it closes, for any reason."""

    async def stopping(self) -> None:
        """Report from now on that the server is stopping."""

    async def stop(self) -> None:
        """Close the port."""


async def serve(
    app: App, place: ServerContext, announce: Announce, stop: Stop, *, waits: bool = False
) -> None:
    """Serve until `stop` is requested; `announce` is called with the URL once the port is open.

    If the store cannot be reached, the start fails, unless `waits` is true.

    Before clients can connect, the store is opened and migrated, deliveries held by dead workers
    are reclaimed, and the workers run. The process must be used for nothing else: its settings
    are tuned, and it is ended by force if handlers still run after the stop.
    """
    app.telemetry.process = None if place.page is None else place.page.number
    # Before the store is opened: settings that SQLite does not allow are refused before the file is
    # created.
    engine = app.engine()
    hand_over_quickly()
    ensure_descriptors(app.settings)
    patience = app.settings.drain + PATIENCE_SECONDS
    with stop_when_orphaned(place.lifeline, stop.request, patience):
        try:
            if await stop.unless_requested(_open_with_retries(app) if waits else app.open()):
                await _serve(app, engine, place, announce, stop)
        finally:
            await app.close()


async def _open_with_retries(app: App) -> None:
    """Open the store; while it cannot be reached, try again after a growing pause."""
    pause, failures, logged_at = FIRST_PAUSE, 0, float("-inf")
    while True:
        try:
            await app.open()
            break
        except SchemaMismatch:
            raise
        except StoreUnavailable as error:
            failures += 1
            if app.clock.monotonic() - logged_at >= LOG_SECONDS:
                logged_at = app.clock.monotonic()
                app.telemetry.emit(StoreUnreachable(loop="start", problem=str(error)))
        await app.clock.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
    if failures:
        app.telemetry.emit(StoreReachable(loop="start", failures=failures))


async def _serve(
    app: App, engine: Engine, place: ServerContext, announce: Announce, stop: Stop
) -> None:
    # Own the file before the port is opened, so that a second server on the same file reports
    # the file and not the port as in use.
    await app.store.own()
    await _create_bootstrap_key(app)
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
        # Handlers still run here, and no other worker may attempt their deliveries meanwhile. So
        # the store stays open and held until the process ends.
        with suppress(StoreUnavailable):
            await app.rollup_writer.flush()
        end_now(0)


async def _create_bootstrap_key(app: App) -> None:
    """Create the key given in the settings, for containers where no command can run first."""
    token = app.settings.bootstrap_key
    if not token or Role.API not in app.settings.roles:
        return
    key = await app.keys.bootstrap(token)
    if key is None:
        logger.debug("there are keys already; bootstrap_key is not used")
    else:
        logger.info("created the first key, %s, from bootstrap_key; it may %s", key.id, key.scope)


@asynccontextmanager
async def _running(engine: Engine, port: Port, stop: Stop, notices: Notices) -> AsyncIterator[None]:
    await engine.start(stop.request)
    try:
        await port.start(stop.request)
        yield
    finally:
        notices.stopping()
        await port.stopping()
        await engine.stop()
        await port.stop()
    engine.raise_failure()


@asynccontextmanager
async def _heartbeat(notices: Notices, clock: Clock) -> AsyncIterator[None]:
    """Report from the event loop that it does not hang, if a watchdog is set."""
    if notices.watchdog is None:
        yield
        return
    reporting = asyncio.create_task(_report_alive(notices, notices.watchdog / 2, clock))
    try:
        yield
    finally:
        reporting.cancel()


async def _report_alive(notices: Notices, seconds: float, clock: Clock) -> None:
    while True:
        notices.alive()
        await clock.sleep(seconds)


async def _port(app: App, engine: Engine, place: ServerContext) -> Port:
    if Role.API not in app.settings.roles:
        return NoPort()
    # Imported here: a process without the API does not load the HTTP server.
    from duly.surfaces.http.port import HttpPort

    return await HttpPort.of(app, engine, place.socket, place.page)


class NoPort:
    """Used by a process without the API: opens nothing."""

    url: str | None = None

    async def start(self, on_end: Callable[[], None]) -> None:
        """Do nothing."""

    async def stopping(self) -> None:
        """Do nothing."""

    async def stop(self) -> None:
        """Do nothing."""
