"""Moving to another store: everything is unchanged, and continues there."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from duly import App
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import record_payloads
from tests.services.transfers import (
    HOURLY,
    Stepping,
    export_lines,
    fill,
    import_lines,
    move,
    records,
)
from tests.services.work import Work

pytestmark = pytest.mark.requirement("C10")
HOUR = timedelta(hours=1)
WHOLE = {"everything": True, "with_secrets": True}


@pytest.fixture
async def third(tmp_path: Path, sqlite_schema: Path, clock: VirtualClock) -> AsyncIterator[App]:
    """A third app, on SQLite."""
    shutil.copyfile(sqlite_schema, tmp_path / "third.db")
    async with App(f"sqlite:///{tmp_path}/third.db", clock=clock, environment={}) as found:
        yield found


async def test_a_round_trip_changes_nothing(
    work: Work, clock: VirtualClock, other: App, third: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(work, clock)
    first = await export_lines(work.app, **WHOLE)
    assert await import_lines(other, first) == {
        "endpoints": (2, 0),
        "streams": (5, 0),
        "policies": (2, 0),
        "schedules": (4, 0),
        "deliveries": (len(first) - 15, 0),
    }
    clock.advance(60)
    second = await export_lines(other, **WHOLE)
    assert records(second) == records(first)
    # One at a time, so that every stream is split into batches.
    monkeypatch.setattr("duly.domain.transfer.reader.BATCH", 1)
    await import_lines(third, second)
    assert records(await export_lines(third, **WHOLE)) == records(first)


@pytest.mark.requirement("F5", "F2", "L4")
async def test_streams_and_retries_continue(work: Work, clock: VirtualClock, other: App) -> None:
    await fill(work, clock)
    ids = {each.payload: each.id for each in await work.app.list(stream="retried")}
    await move(work.app, other, with_secrets=True)
    moved = Work(other)
    states = {each.name: each.state for each in await other.streams.list()}
    assert states == {
        "blocked": "blocked",
        "paused": "paused",
        "released": "idle",
        "replayed": "blocked",
        "retried": "retrying",
        "unused": "idle",
        "unused too": "idle",
    }
    for name in ("blocked", "retried", "unused too"):
        before, after = await work.app.streams.get(name), await other.streams.get(name)
        assert (after.block_for, after.blocked_until) == (before.block_for, before.blocked_until)
        assert (after.blocked_until is None) is (name == "unused too")
    assert await run_until_idle(other) == 0
    clock.advance(60)
    await run_until_idle(other)
    assert [each for each in moved.seen if each in "abc"] == ["a", "b", "c"]
    assert (await other.get(ids["a"])).attempt == 2
    assert [each.attempt for each in await other.deliveries.history(ids["a"])] == [1, 2]
    assert moved.seen.count("f") == 1
    assert "g" not in moved.seen
    await other.streams.release("replayed")
    await other.streams.release("blocked")
    await run_until_idle(other)
    assert [each for each in moved.seen if each in "jkl"] == ["j", "l"]
    assert [each for each in moved.seen if each in "hi"] == ["i"]


@pytest.mark.requirement("F8")
async def test_a_move_keeps_retry_times_and_completed_steps(
    work: Work, clock: VirtualClock, other: App
) -> None:
    await fill(work, clock)
    await move(work.app, other, with_secrets=True)
    moved, stepping = Work(other), Stepping(other)
    clock.advance(10)
    await other.streams.resume("paused")
    await run_until_idle(other)
    assert "d" not in moved.seen
    clock.advance(50)
    await run_until_idle(other)
    assert [each for each in moved.seen if each in "de"] == ["d", "e"]
    assert stepping.ran == ["attempt 2"]


@pytest.mark.requirement("C1")
async def test_a_schedule_continues_and_repeats_no_occurrence(
    app: App, clock: VirtualClock, other: App
) -> None:
    seen = record_payloads(app)
    for name in ("hourly", "early"):
        await app.schedule(name, HOURLY, "work", {"team": 7})
    assert await run_until_idle(app, within=HOUR) == 2
    next_one = (await app.schedules.get("early")).next_id
    await app.retry(str(next_one))
    assert await run_until_idle(app) == 1
    await move(app, other)
    moved = record_payloads(other)
    assert await other.store.schedules.without_next("", 99) == ([], None)
    assert await run_until_idle(other) == 0
    assert await run_until_idle(other, within=2 * HOUR) == 3
    assert (len(seen), len(moved)) == (3, 3)
    for name in ("hourly", "early"):
        assert (await other.store.schedules.get(name)).progress.runs == 4
