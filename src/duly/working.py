"""How an App is opened, works until it is stopped, and is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Self

from duly.composition import Parts, engine_for, parts_within, services_for
from duly.domain.roles import refuse_idle
from duly.engine.stopping import Stop
from duly.engine.supervisor import Engine
from duly.errors import Conflict, StoreUnavailable
from duly.ports import Transport
from duly.services.namespace import Namespace
from duly.signals import listen_for_signals


class Working(Namespace):
    """The life of an App over its parts."""

    def __init__(self, parts: Parts, actor: str | None) -> None:
        super().__init__(services_for(parts), actor)
        self.parts = parts
        self.telemetry, self.rollup_writer = parts.telemetry, parts.rollup_writer
        self.handlers, self.webhooks = parts.transports.handlers, parts.transports.webhooks
        self.book, self.transports = parts.transports.book, parts.transports.combined
        self._open = False
        self._opening: asyncio.Event | None = None
        self._works = self._is_to_close = False
        self._stop = Stop()

    def within(self, namespace: str) -> Namespace:
        """Another namespace of the store: to deliver, read and change there; it runs nothing.

        It is open as long as this App. If this process works for the namespace, it has the handlers
        of this process; otherwise only the store knows which there are.
        """
        served = self.settings.served
        parts = parts_within(self.parts, namespace)
        return Namespace(services_for(parts, is_served=served is None or namespace in served))

    async def open(self, *, migrate: bool = True) -> None:
        """Connect to the store and bring its schema up to date."""
        await self._open_unless_open(migrate)

    async def _open_unless_open(self, migrate: bool) -> bool:
        """Open the app, or wait for the call that is opening it; whether this call opened it."""
        # First of all: a failed opening closes the store, which may be another event loop's.
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
            # Nobody closes what could not be opened, and a file must not stay open for it.
            await self.store.close()
            raise
        self._open = True
        try:
            await self.schedules.declare_all(self.handlers.name_of)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of the store."""
        self.store.check_loop()
        self.telemetry.summarize()
        if self._open:
            with suppress(StoreUnavailable):
                await self.rollup_writer.tick()
        self._open = False
        for each in (self.rollup_writer, *self.rollup_writer.others):
            each.begin_anew()
        self.handlers.begin_anew()
        await self.watch.live.stop()
        await self.webhooks.close()
        await self.store.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def engine(self, transport: Transport | None = None, *, stepped: bool = False) -> Engine:
        """A worker over this app's store and handlers, or another transport in their place.

        A `stepped` one runs no loops: tests call it step by step.
        """
        return engine_for(self.parts, self, transport, stepped=stepped)

    async def run(self, *, signals: bool = True) -> None:
        """Work until `stop` is called, or SIGTERM or SIGINT comes; then drain and return.

        It is the worker and the planner, as far as the roles say so; it opens no HTTP port. The
        signals are left alone if the program handles one of them itself, as web servers do.
        """
        refuse_idle(self.settings.roles)
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
        """Work beside the rest of a program, for as long as the block runs.

        `async with app.worker():` goes on when this process takes part in the work, and raises what
        kept it from starting. Leaving it stops gracefully, as `run` does: what runs may end within
        `drain`. It never touches signals; the block's end is the one way to stop it.
        """
        refuse_idle(self.settings.roles)
        with self._claimed():
            async with self._closing():
                await self._prepare()
                async with self._working(on_failed=_do_nothing):
                    yield self

    def lifespan(
        self, *, work: bool = True
    ) -> Callable[[object], AbstractAsyncContextManager[None]]:
        """The lifespan of a FastAPI or Starlette application: `FastAPI(lifespan=app.lifespan())`.

        It works while the application serves; with `work=False` the App is only open, to deliver.
        """

        @asynccontextmanager
        async def lifespan(_application: object) -> AsyncIterator[None]:
            async with self.worker() if work else self:
                yield

        return lifespan

    def stop(self) -> None:
        """End `run` gracefully, or the next one at once if none runs; from any thread."""
        self._stop.request()

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        """Work as the only one; Conflict, before anything was touched, if another one does."""
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
                # Another process that took the file over would attempt again what still runs here.
                self.store.stay_owned()
        engine.raise_failure()


def _do_nothing() -> None:
    """The failure is logged at once, and raised where the block ends."""
