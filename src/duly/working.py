"""How an App is opened, works until it is stopped, and is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Self
from weakref import WeakSet

from duly.composition import (
    Parts,
    declarations_for,
    engine_for,
    parts_within,
    services_for,
)
from duly.domain.roles import refuse_idle
from duly.engine.stopping import Stop
from duly.engine.supervisor import Engine
from duly.errors import Conflict, StoreUnavailable
from duly.ports import Transport
from duly.services.monitoring.monitoring import Monitoring
from duly.services.namespace import PROGRAM, Namespace, Shared
from duly.signals import listen_for_signals
from duly.sync.home import Home
from duly.sync.namespace import SyncApp, SyncNamespace


class OwnNamespace(Namespace):
    """A namespace on the connections of an App, open as long as that."""

    def __init__(self, shared: Shared, home: Home, actor: str | None = None) -> None:
        super().__init__(shared, actor)
        self._home = home

    @property
    def sync(self) -> SyncNamespace:
        """The same methods for synchronous code: they block."""
        return SyncNamespace(self, self._home)

    def acting_as(self, actor: str) -> OwnNamespace:
        """The same namespace, with this `actor` in the audit trail."""
        return OwnNamespace(self._shared, self._home, actor)


class Working(Namespace):
    """Opening, running and closing an App."""

    def __init__(self, parts: Parts, actor: str | None) -> None:
        super().__init__(services_for(parts), actor)
        self.parts = parts
        self.declarations = declarations_for(parts, self)
        self.telemetry, self.rollup_writer = parts.telemetry, parts.rollup_writer
        self.handlers, self.webhooks = parts.transports.handlers, parts.transports.webhooks
        self.endpoint_cache = parts.transports.endpoints
        self.transports = parts.transports.combined
        self._sync: SyncApp | None = None
        self._open = False
        self._opening: asyncio.Event | None = None
        self._works = self._is_to_close = False
        self._stop = Stop()
        self._home = Home(Residence(self))
        self._watched = WeakSet[Monitoring]([self.stats])
        """What reads the status of this namespace and others, and ends with the App."""

    @property
    def sync(self) -> SyncApp:
        """The same methods for synchronous code: they block, as in `app.sync.deliver(...)`.

        They run on the event loop in which the App is open, or else on one in the background.
        """
        if self._sync is None:
            self._sync = SyncApp(self, self._home)
        return self._sync

    def within(self, namespace: str) -> OwnNamespace:
        """Another namespace of the store, to deliver, read and change there; it runs nothing.

        It is open as long as this App. If this process works for the namespace, it has the handlers
        of this process; otherwise only the store knows its handlers.
        """
        served = self.settings.served
        parts = parts_within(self.parts, namespace)
        is_served = served is None or namespace in served
        found = OwnNamespace(services_for(parts, is_served=is_served), self._home)
        self._watched.add(found.stats)
        return found

    def acting_as(self, actor: str) -> OwnNamespace:
        """The same namespace, with this `actor` in the audit trail."""
        return OwnNamespace(self._shared, self._home, actor)

    async def open(self, *, migrate: bool = True) -> None:
        """Connect to the store and bring its schema up to date."""
        await self._open_unless_open(migrate)

    async def _open_unless_open(self, migrate: bool) -> bool:
        """Open the app, or wait for the call that is opening it; whether this call opened it."""
        await self._home.move_here()
        # First: a failed opening closes the store, which may belong to another event loop.
        self.store.enter()
        while self._opening is not None:
            await self._opening.wait()
            self.store.enter()
        if self._open:
            return False
        self._opening = opening = asyncio.Event()
        try:
            await self._open_now(migrate)
        finally:
            self._opening = None
            opening.set()
        return True

    async def _open_now(self, migrate: bool) -> None:
        try:
            await self.store.open(migrate=migrate)
        except BaseException:
            # The caller does not close what could not be opened, and the file must not stay open.
            await self.store.close()
            raise
        self._open = True
        try:
            if migrate:
                await self.migrate_more()
            await self.declarations.declare_all(self.handlers.name_of, self.handlers.check_schedule)
            await self._declare_limits()
        except BaseException:
            await self.close()
            raise

    async def _declare_limits(self) -> None:
        if declared := self.handlers.limits():
            await self.store.limits.declare(declared, self.settings.served, PROGRAM)

    async def migrate_more(self) -> None:
        """Called when the store's schema is up to date; override it for tables of your own."""

    async def close(self) -> None:
        """Close the connection to the store."""
        self.store.check_loop()
        self.telemetry.summarize()
        if self._open:
            with suppress(StoreUnavailable):
                await self.rollup_writer.flush()
        self._open = False
        for each in (self.rollup_writer, *self.rollup_writer.others):
            each.reset()
        self.handlers.reset()
        for watched in list(self._watched):
            await watched.stop()
        await self.parts.ends.stop()
        await self.webhooks.close()
        await self.store.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def engine(self, transport: Transport | None = None, *, stepped: bool = False) -> Engine:
        """The engine of this app, with its handlers or another transport.

        A `stepped` one runs no loops: tests call it step by step.
        """
        return engine_for(self.parts, self, self.declarations, transport, stepped=stepped)

    async def run(self, *, signals: bool = True) -> None:
        """Work until `stop` is called, or SIGTERM or SIGINT is received; then drain and return.

        It runs the worker and the planner, according to the roles, and opens no HTTP port. The
        signals are left alone if the program handles one of them itself, as web servers do.
        """
        refuse_idle(self.settings.roles)
        await self._home.move_here()
        claim = self._claimed()
        with claim, listen_for_signals(self.stop if signals else None, as_guest=True):
            try:
                async with self._closing():
                    if await self._stop.unless_requested(self._prepare()):
                        async with self._working(on_failed=self.stop):
                            await self._stop.wait()
            finally:
                self._stop.is_requested = False

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Self]:
        """Work in the background of a program, as long as the block runs.

        `async with app.worker():` continues when the worker has started, or raises its error. At
        the end of the block it stops gracefully, like `run`: running deliveries may finish within
        `drain`. It handles no signals.
        """
        refuse_idle(self.settings.roles)
        await self._home.move_here()
        with self._claimed():
            async with self._closing():
                await self._prepare()
                async with self._working(on_failed=_do_nothing):
                    yield self

    def lifespan(
        self, *, work: bool = True
    ) -> Callable[[object], AbstractAsyncContextManager[None]]:
        """The lifespan of a FastAPI or Starlette application: `FastAPI(lifespan=app.lifespan())`.

        It works while the application serves; with `work=False` the App is only open, for calls.
        """

        @asynccontextmanager
        async def lifespan(_application: object) -> AsyncIterator[None]:
            async with self.worker() if work else self:
                yield

        return lifespan

    def stop(self) -> None:
        """End `run` gracefully, or the next `run` at once if none runs; from any thread."""
        self._stop.request()

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Conflict if this App already works."""
        self.store.check_loop()
        if self._works:
            raise Conflict(
                "this App works already; run one app.run() or app.worker() of it at a time"
            )
        self._works = True
        try:
            yield
        finally:
            self._works = False

    async def _prepare(self) -> None:
        self._is_to_close = await self._open_unless_open(migrate=True)
        await self.webhooks.prepare()

    @asynccontextmanager
    async def _closing(self) -> AsyncIterator[None]:
        """Close the app at the end if `_prepare` opened it."""
        self._is_to_close = False
        try:
            yield
        finally:
            if self._is_to_close:
                await self.close()

    @asynccontextmanager
    async def _working(self, on_failed: Callable[[], None]) -> AsyncIterator[None]:
        engine = self.engine()
        await engine.start(on_failed)
        try:
            yield
        finally:
            await engine.stop()
            if engine.running:
                # Another owner of the file would attempt deliveries that still run here.
                self.store.stay_owned()
        engine.raise_failure()


def _do_nothing() -> None:
    """The failure is logged at once, and raised where the block ends."""


class Residence:
    """The event loop of an App, as its synchronous calls need it."""

    def __init__(self, app: Working) -> None:
        self._app = app
        self.open, self.close = app.open, app.close

    @property
    def is_open(self) -> bool:
        """Whether the App is open, on any event loop."""
        return self._app._open

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop to which the App belongs."""
        return self._app.store.event_loop

    def check_movable(self) -> None:
        """Conflict for an App on a caller's pool, which cannot be used on another event loop."""
        if self._app.store.one_loop:
            raise Conflict(
                "this App uses your asyncpg pool, which belongs to your event loop; open the App "
                "there first, or give it a URL or a `connect` function instead of the pool"
            )

    def settle_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the App belong to this event loop."""
        self._app.store.settle_on(loop)

    async def until_open(self) -> None:
        """Wait while the App is being opened."""
        if self._app._opening is not None:
            await self._app._opening.wait()
