"""Moving to another store: all is as it was, and goes on there where it stood."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from duly import App
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import noted
from tests.services.lines import Work
from tests.services.moving import HOURLY, Stepping, exported, imported, lay_out, moved, things

pytestmark = pytest.mark.requirement("C10")
HOUR = timedelta(hours=1)
WHOLE = {"everything": True, "with_secrets": True}


@pytest.fixture
async def third(tmp_path: Path, sqlite_schema: Path, clock: VirtualClock) -> AsyncIterator[App]:
    """And one more, on SQLite."""
    shutil.copyfile(sqlite_schema, tmp_path / "third.db")
    async with App(f"sqlite:///{tmp_path}/third.db", clock=clock, environment={}) as found:
        yield found


async def test_there_and_back_nothing_has_changed(
    work: Work, clock: VirtualClock, other: App, third: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lay_out(work, clock)
    first = await exported(work.app, **WHOLE)
    assert await imported(other, first) == {
        "endpoints": (2, 0),
        "streams": (2, 0),
        "schedules": (4, 0),
        "deliveries": (len(first) - 10, 0),
    }
    clock.advance(60)
    second = await exported(other, **WHOLE)
    assert things(second) == things(first)
    # One by one, so that every line of a stream comes in parts.
    monkeypatch.setattr("duly.domain.transfer.reader.BATCH", 1)
    await imported(third, second)
    assert things(await exported(third, **WHOLE)) == things(first)


@pytest.mark.requirement("F5", "F2")
async def test_streams_and_retries_go_on_where_they_stood(
    work: Work, clock: VirtualClock, other: App
) -> None:
    await lay_out(work, clock)
    ids = {each.payload: each.id for each in await work.app.list(stream="retried")}
    await moved(work.app, other, with_secrets=True)
    there = Work(other)
    states = {each.name: each.state for each in await other.streams.list()}
    assert states == {
        "blocked": "blocked",
        "paused": "paused",
        "released": "idle",
        "replayed": "blocked",
        "retried": "retrying",
        "unused": "idle",
    }
    assert await run_until_idle(other) == 0
    clock.advance(60)
    await run_until_idle(other)
    assert [each for each in there.seen if each in "abc"] == ["a", "b", "c"]
    assert (await other.get(ids["a"])).attempt == 2
    assert [each.attempt for each in await other.deliveries.history(ids["a"])] == [1, 2]
    assert there.seen.count("f") == 1
    assert "g" not in there.seen
    await other.streams.release("replayed")
    await other.streams.release("blocked")
    await run_until_idle(other)
    assert [each for each in there.seen if each in "jkl"] == ["j", "l"]
    assert [each for each in there.seen if each in "hi"] == ["i"]


@pytest.mark.requirement("F8")
async def test_a_pause_and_a_move_shift_no_retry_and_steps_that_were_done_stay_done(
    work: Work, clock: VirtualClock, other: App
) -> None:
    await lay_out(work, clock)
    await moved(work.app, other, with_secrets=True)
    there, stepping = Work(other), Stepping(other)
    clock.advance(10)
    await other.streams.resume("paused")
    await run_until_idle(other)
    assert "d" not in there.seen
    clock.advance(50)
    await run_until_idle(other)
    assert [each for each in there.seen if each in "de"] == ["d", "e"]
    assert stepping.ran == ["attempt 2"]


@pytest.mark.requirement("C1")
async def test_a_schedule_goes_on_and_makes_no_occurrence_twice(
    app: App, clock: VirtualClock, other: App
) -> None:
    seen = noted(app)
    for name in ("hourly", "hurried"):
        await app.schedule(name, HOURLY, "work", {"team": 7})
    assert await run_until_idle(app, within=HOUR) == 2
    next_one = (await app.schedules.get("hurried")).next_id
    await app.retry(str(next_one))
    assert await run_until_idle(app) == 1
    await moved(app, other)
    there = noted(other)
    assert await other.store.schedules.without_next("", 99) == ([], None)
    assert await run_until_idle(other) == 0
    assert await run_until_idle(other, within=2 * HOUR) == 3
    assert (len(seen), len(there)) == (3, 3)
    for name in ("hourly", "hurried"):
        assert (await other.store.schedules.get(name)).progress.runs == 4
