"""A site with one of everything in its store, which is called from outside its event loop."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

import apsw
from httpx import ASGITransport, AsyncClient, Response

import duly
from duly import App
from duly.stores.postgres.database import Postgres
from duly.surfaces.http.application import site
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.testing import VirtualClock
from tests.services.conftest import START

ELSEWHERE = "https://hook.invalid/"
DEAD_END = "http://127.0.0.1:9/hook"
"""No server listens there, so an attempt fails at once."""
Names = dict[str, dict[str, str]]
"""Values of path parameters, by the first part of the path."""


class FilledSite:
    """The site, the names of its records by path, and the number of rows in its store."""

    def __init__(self, app: App, names: Names, runner: asyncio.Runner) -> None:
        self.app = app
        self.names = names
        self.site = site(app, ProcessHealth(app, app.engine()))
        self._runner = runner
        transport = ASGITransport(self.site, raise_app_exceptions=False)
        self._client = AsyncClient(
            transport=transport,
            base_url="http://127.0.0.1",
            headers={"content-type": "application/json"},
        )
        self._tables = runner.run(_tables(app))
        self._rows: dict[str, int] | None = None

    def request(self, method: str, url: str, **sent: Any) -> Response:
        """Send a request."""
        self._rows = None
        return self._runner.run(self._client.request(method, url, **sent))

    def run(self, call: Any) -> Any:
        """Run a coroutine of the app."""
        self._rows = None
        return self._runner.run(call)

    def rows(self) -> dict[str, int]:
        """The number of rows of each table; counted again only after a request."""
        if self._rows is None:
            self._rows = self._counted()
        return self._rows

    def _counted(self) -> dict[str, int]:
        counts = ", ".join(f"(select count(*) from {each})" for each in self._tables)
        (found,) = self._runner.run(_fetched(self.app, f"select {counts}"))
        return dict(zip(self._tables, found, strict=True))


@contextmanager
def filled_site(
    database_url: str, *, hook: str = ELSEWHERE, **options: Any
) -> Iterator[FilledSite]:
    """Open and fill a site, with its endpoint at that URL."""
    clock = VirtualClock(START, sleeping_moves_it=True)
    app = App(database_url, clock=clock, environment={}, **options)
    app.expect("work")
    with asyncio.Runner() as runner:
        runner.run(app.open())
        yield FilledSite(app, runner.run(fill_store(app, hook)), runner)
        runner.run(app.close())


async def fill_store(app: App, hook: str) -> Names:
    """Store one of everything; returns the names."""
    for n in range(3):
        await app.deliver("work", {"n": n}, stream="line", key=f"k{n}", tags=["red"], after=60)
    await app.streams.dead_letter_head("line", "on purpose")
    await app.endpoints.add("hook", hook, rate=50, limits=duly.per("customer", in_flight=2))
    await app.calendars.set("nrw", {date(2026, 12, 25): "Christmas"})
    await app.schedule("hourly", duly.every("1h"), "work")
    await app.recovery.set("unknown", tries=1, then="hold")
    batch = await app.batches.open("work", name="nightly")
    await app.deliver("work", batch=batch.id, after=60)
    worker = await app.store.workers.register("host:1", 12.0, 7, ["work"])
    return {
        "deliveries": {"id": (await app.list())[0].id},
        "dead-letters": {"id": (await app.dead_letters.list())[0].id},
        "streams": {"name": "line"},
        "batches": {"id": batch.id},
        "endpoints": {"name": "hook"},
        "schedules": {"name": "hourly"},
        "calendars": {"name": "nrw"},
        "keys": {"id": (await app.keys.create("ops")).id},
        "workers": {"id": str(worker)},
        "recovery": {"reason": "unknown"},
        "limits": {"target": "endpoint:hook"},
    }


async def _tables(app: App) -> list[str]:
    listed = (
        "select 'duly.' || tablename from pg_tables where schemaname = 'duly' order by 1"
        if isinstance(app.store.database, Postgres)  # type: ignore[attr-defined]
        else "select name from sqlite_master where type = 'table' and name glob 'duly_*'"
    )
    return [row[0] for row in await _fetched(app, listed)]


async def _fetched(app: App, sql: str) -> list[Any]:
    database = app.store.database  # type: ignore[attr-defined]
    if isinstance(database, Postgres):
        async with database.shared() as connection:
            return list(await connection.fetch(sql))
    return apsw.Connection(app.settings.database.removeprefix("sqlite:///")).execute(sql).fetchall()
