"""`duly bench`: a quick benchmark of this machine and store, which leaves nothing behind."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import uvloop
from cyclopts import Parameter

from duly.app import App
from duly.composition import engine_for
from duly.domain import events
from duly.domain.deliveries.identifiers import delivery_id
from duly.errors import Conflict, InvalidInput
from duly.settings import CENTURY
from duly.stores.deliveries.maintenance import BEGINNING
from duly.stores.sqlite.database import Sqlite
from duly.surfaces.cli.terminal.flags import Database, Json, database_of
from duly.surfaces.cli.terminal.output import answer, facts, fields, progress
from duly.system import hand_over_quickly
from duly.telemetry import Telemetry

NAMESPACE = "bench"
TARGET = "bench.nothing"
PRODUCERS = 64
SLICE = 5000
BEST = 2000
"""What is best for deliveries that do nothing; measured after the setting itself."""
# It must never prune other deliveries, even where the settings would.
NO_PRUNING: dict[str, Any] = {
    "keep_completed": CENTURY,
    "keep_dead": CENTURY,
    "sweep_interval": CENTURY,
    "role": "worker,planner",
}


class Measured(msgspec.Struct, frozen=True):
    """The result; rates are per second. The last one is with as many in flight as are best."""

    count: int
    concurrency: int
    store: str
    accepted_per_second: float
    delivered_per_second: float
    best_concurrency: int
    best_delivered_per_second: float


class Finish(Telemetry):
    """Counts completed deliveries, and sets an event when all are completed."""

    def __init__(self, count: int, monotonic: Callable[[], float]) -> None:
        super().__init__(monotonic)
        self._left = count
        self.reached = asyncio.Event()

    def emit(self, event: events.Event) -> None:
        """Count the completions of a batch."""
        if isinstance(event, events.BatchSettled):
            self._left -= event.completed
            if self._left <= 0:
                self.reached.set()


def bench(
    *,
    count: Annotated[int, Parameter(help="How many deliveries.")] = 10_000,
    concurrency: Annotated[int | None, Parameter(help="How many to attempt at once.")] = None,
    database: Database = None,
    json: Json = False,
) -> None:
    """Measure how many deliveries a second are accepted and delivered here.

    First as it is set, then with as many in flight as are best for deliveries that do nothing. They
    are empty, and in the namespace `bench`, which is emptied afterwards. SQLite is measured
    with a temporary file in the same folder; the database itself is not touched.
    """
    if count < 1:
        raise InvalidInput("count", f"{count} is not 1 or more")
    hand_over_quickly()
    with _address(database) as url:
        found = uvloop.run(_bench(count, url, concurrency))
    answer(json, found, lambda: facts(fields(found)))


@contextmanager
def _address(database: str | None) -> Iterator[str | None]:
    """The address to measure; for SQLite a new file on the same disk."""
    known = database_of(App(database))
    if not isinstance(known, Sqlite):
        yield database
        return
    folder = known.path.parent if known.path.parent.is_dir() else Path()
    with tempfile.TemporaryDirectory(prefix=".duly-bench-", dir=folder) as temporary:
        yield f"sqlite:///{Path(temporary).resolve()}/bench.db"


async def _bench(count: int, url: str | None, concurrency: int | None) -> Measured:
    app, accepting, delivering = await _measure(count, url, concurrency)
    _, _, at_best = await _measure(count, url, BEST)
    return Measured(
        count,
        app.settings.concurrency,
        "sqlite" if app.store.single_owner else "postgresql",
        round(count / accepting),
        round(count / delivering),
        BEST,
        round(count / at_best),
    )


async def _measure(
    count: int, url: str | None, concurrency: int | None
) -> tuple[App, float, float]:
    """The seconds that accepting and delivering took."""
    app = App(url, namespace=NAMESPACE, concurrency=concurrency, **NO_PRUNING)
    finish = Finish(count, app.clock.monotonic)
    app.handler(TARGET)(_nothing)
    async with app:
        await _make_room(app)
        began_after = _id_before(app.clock.now())
        try:
            return app, await _accept(app, count), await _deliver(app, finish)
        finally:
            await _clean_up(app, began_after)


async def _nothing(_delivery: Any) -> None: ...


async def _make_room(app: App) -> None:
    """Remove data of an interrupted benchmark; Conflict if others use the namespace."""
    known = set((await app.store.targets.refresh()).values())
    if known - {TARGET}:
        raise Conflict(f"the namespace {NAMESPACE!r} is in use, and bench would empty it")
    if known:
        await _clean_up(app, BEGINNING)
        await app.store.targets.refresh()


async def _accept(app: App, count: int) -> float:
    started, numbers = app.clock.monotonic(), iter(range(count))
    with progress("accepting", count) as advance:

        async def produce() -> None:
            for _ in numbers:
                await app.deliver(TARGET, {})
                advance(1)

        await asyncio.gather(*(produce() for _ in range(PRODUCERS)))
    return app.clock.monotonic() - started


async def _deliver(app: App, finish: Finish) -> float:
    engine = engine_for(replace(app.parts, telemetry=finish), app, app.declarations)
    started = app.clock.monotonic()
    await engine.start()
    try:
        await finish.reached.wait()
        return app.clock.monotonic() - started
    finally:
        await engine.stop()


def _id_before(moment: datetime) -> str:
    """An id below all later ones, so that the rest of the ledger is not read."""
    return delivery_id(int((moment - timedelta(seconds=1)).timestamp() * 1000), 0)


async def _clean_up(app: App, began_after: str) -> None:
    after: str | None = began_after
    while after is not None:
        after = await app.store.maintenance.forget(NAMESPACE, after, SLICE)
