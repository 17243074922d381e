"""Reads that watchers share: many watchers, or a large backlog, do not slow the work down."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

import duly
from duly import App
from duly.ports import LateWork
from duly.records.status import BacklogStatus
from duly.services.monitoring import recovering
from duly.services.monitoring.recovering import Recovering
from duly.services.monitoring.shared_read import SharedRead
from duly.testing import NEW_YEAR, VirtualClock

pytestmark = pytest.mark.requirement("D5")


class SlowStore:
    """Counts late work, which takes some seconds; a hundred are drained each second."""

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self.clock = clock
        self.seconds = seconds
        self.reads = 0

    async def late_work(self, _grace: timedelta) -> LateWork | None:
        self.reads += 1
        self.clock.advance(self.seconds)
        left = 100_000 - int(100 * self.clock.monotonic())
        return LateWork(left, NEW_YEAR) if left > 0 else None

    async def look(self) -> datetime:
        self.reads += 1
        self.clock.advance(self.seconds)
        return self.clock.now()


@pytest.mark.parametrize(("takes", "kept"), [(0.0, 1.0), (0.01, 1.0), (0.3, 3.0), (2.0, 5.0)])
async def test_a_read_is_kept_for_a_second_or_ten_times_as_long_as_it_took_up_to_a_limit(
    takes: float, kept: float
) -> None:
    clock = VirtualClock()
    store = SlowStore(clock, takes)
    read = SharedRead(store.look, clock)
    first = await read()
    clock.advance(kept - 0.1)
    assert (await read(), store.reads) == (first, 1)
    clock.advance(0.2)
    assert (await read() > first, store.reads) == (True, 2)


async def test_whoever_wants_it_as_of_now_gets_an_older_one_only_if_it_is_costly() -> None:
    clock = VirtualClock()
    store = SlowStore(clock, 0.0)
    read = SharedRead(store.look, clock)
    await read(age=0)
    await read(age=0)
    assert store.reads == 2
    store.seconds = 1.0
    await read(age=0)
    await read(age=0)
    assert store.reads == 3


async def test_a_failed_read_is_not_kept() -> None:
    clock, answers = VirtualClock(), [ValueError("once"), 7]

    async def look() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    read = SharedRead(look, clock)
    with pytest.raises(ValueError, match="once"):
        await read()
    assert await read() == 7


async def test_counts_of_a_large_backlog_take_a_small_part_of_the_time() -> None:
    clock = VirtualClock(sleeping_moves_it=True)
    store: Any = SlowStore(clock, 0.5)
    look = Recovering(store, clock, timedelta(minutes=1))
    assert await look() == BacklogStatus(99_800, NEW_YEAR, 100.0, 998.0)
    assert store.reads == 2, "the first measures a rate"
    clock.advance(0.5 * recovering.REST - 1)
    for _ in range(5):
        await look()
    assert store.reads == 2
    clock.advance(1)
    found = await look()
    assert store.reads == 3, "the one before is compared with"
    assert found is not None
    assert found.rate == 100.0


async def test_a_small_backlog_is_counted_for_everybody_who_asks() -> None:
    clock = VirtualClock(sleeping_moves_it=True)
    store: Any = SlowStore(clock, 0.0)
    look = Recovering(store, clock, timedelta(minutes=1))
    for asked in range(1, 4):
        await look()
        assert store.reads == 2 * asked
    clock.advance(1000)
    assert await look() is None


async def test_a_read_in_progress_ends_when_the_app_closes(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(database_url, environment={})
    began = asyncio.Event()

    async def hangs(_grace: object) -> None:
        began.set()
        await asyncio.Event().wait()

    async with app:
        monkeypatch.setattr(app.store.status, "look", hangs)
        asking = asyncio.create_task(app.stats.namespace_status())
        await began.wait()
    with pytest.raises(duly.StoreUnavailable, match="the App was closed during the read"):
        await asking
