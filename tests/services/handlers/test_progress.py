"""Handlers report how far they are, and people see it."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import duly
from duly import App, Conflict, DeliveryRecord, InvalidInput, State
from duly.stores.deliveries.running import Running
from duly.testing import run_until_idle

pytestmark = pytest.mark.requirement("P4")

DEADLINE_SECONDS = 60


class Reporting:
    """A worker whose handlers report, and then wait."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.goes_on, self.thread_goes_on = asyncio.Event(), threading.Event()
        app.handler("async")(self.asynchronous)
        app.handler("plain")(self.plain)
        app.handler("sync")(self.synchronous)
        app.handler("once", retry=duly.delays(0))(self.once)

    async def asynchronous(self, delivery: duly.Delivery) -> None:
        await delivery.progress(0.1)
        await delivery.progress(0.4, "page 4 of 10")
        await self.goes_on.wait()

    def plain(self, delivery: duly.Delivery) -> None:
        delivery.progress(0.4, "page 4 of 10")
        self.thread_goes_on.wait(DEADLINE_SECONDS)

    def synchronous(self, delivery: duly.Delivery) -> None:
        delivery.sync.progress(0.4, "page 4 of 10")
        self.thread_goes_on.wait(DEADLINE_SECONDS)

    async def once(self, delivery: duly.Delivery) -> None:
        if delivery.attempt == 1:
            await delivery.progress(0.9)
            await self.goes_on.wait()
            self.goes_on.clear()
            raise RuntimeError("again")
        await self.goes_on.wait()

    async def seen(self, id: str, progress: float | None) -> DeliveryRecord:
        """The delivery as soon as it shows that progress."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while (found := await self.app.get(id)).progress != progress:
                pass
        return found


@pytest.fixture
async def reporting(database_url: str) -> AsyncIterator[Reporting]:
    app = App(database_url, environment={})
    found = Reporting(app)
    async with app.worker():
        yield found
        found.goes_on.set()
        found.thread_goes_on.set()


@pytest.mark.parametrize("target", ["async", "plain", "sync"])
async def test_the_latest_report_is_seen_while_it_runs(reporting: Reporting, target: str) -> None:
    app = reporting.app
    handle = await app.deliver(target)

    found = await reporting.seen(handle.id, 0.4)

    assert (found.state, found.progress_note) == (State.PROCESSING, "page 4 of 10")
    assert found.progress_at is not None
    (listed,) = await app.list(state="processing")
    assert (listed.progress, listed.progress_note) == (0.4, "page 4 of 10")
    second = await anext(aiter(app.stats.live.listen()))
    (report,) = second.progress
    assert (report.id, report.target, report.progress) == (handle.id, target, 0.4)
    reporting.goes_on.set()
    reporting.thread_goes_on.set()
    ended = await handle.wait(timeout=DEADLINE_SECONDS)
    assert (ended.progress, ended.progress_note, ended.progress_at) == (None, None, None)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await app.store.running.look():
            pass


async def test_the_next_attempt_does_not_show_what_an_earlier_one_reported(
    reporting: Reporting,
) -> None:
    handle = await reporting.app.deliver("once")
    await reporting.seen(handle.id, 0.9)
    reporting.goes_on.set()

    found = await reporting.seen(handle.id, None)
    assert found.attempt == 1


async def test_a_thousand_reports_are_one_write(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, writes = App(database_url, environment={}), []
    report = Running.report

    async def counted(running: Running, reports: Any) -> None:
        writes.append(reports)
        await report(running, reports)

    monkeypatch.setattr(Running, "report", counted)
    reporting = Reporting(app)

    @app.handler("busy")
    async def busy(delivery: duly.Delivery) -> None:
        for number in range(1000):
            await delivery.progress(number / 1000)
        await reporting.goes_on.wait()

    async with app.worker():
        handle = await app.deliver("busy")
        await reporting.seen(handle.id, 0.999)
        reporting.goes_on.set()

    assert [len(each) for each in writes] == [1]


@pytest.mark.parametrize(
    ("share", "note", "problem"),
    [
        (1.1, None, "progress: 1.1 is not a number from 0 to 1"),
        (-0.1, None, "progress: -0.1 is not"),
        (float("nan"), None, "progress: nan is not"),
        (True, None, "progress: True is not"),
        ("half", None, "progress: 'half' is not"),
        (0.5, "x" * 201, "note: "),
        (0.5, 7, "note: "),
    ],
)
async def test_a_bad_report_is_refused(small_app: App, share: Any, note: Any, problem: str) -> None:
    refused: list[InvalidInput] = []

    @small_app.handler("work")
    async def work(delivery: duly.Delivery) -> None:
        try:
            await delivery.progress(share, note)
        except InvalidInput as error:
            refused.append(error)

    await small_app.deliver("work")
    await run_until_idle(small_app)

    (error,) = refused
    assert str(error).startswith(problem)


async def test_an_attempt_that_has_ended_reports_nothing(small_app: App) -> None:
    seen: list[duly.Delivery] = []

    @small_app.handler("work")
    async def work(delivery: duly.Delivery) -> None:
        seen.append(delivery)

    await small_app.deliver("work")
    await run_until_idle(small_app)

    with pytest.raises(Conflict, match="the attempt has ended"):
        await seen[0].progress(0.5)
