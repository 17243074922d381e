"""A schedule as a value: its state, its occasion, and when an occurrence is due."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.schedules.schedule import (
    Contents,
    Occasion,
    ScheduleProgress,
    ScheduleTiming,
    StoredSchedule,
    decode_occasion,
    due_at,
    encode_occasion,
    no_schedule,
)
from duly.domain.time.occurrences import Occurrence
from duly.domain.time.rules import at, cron, every, yearly
from duly.records.schedule import CatchUp, Overlap

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


def schedule(**changes: Any) -> StoredSchedule:
    facts: dict[str, Any] = {
        "id": 3,
        "name": "daily",
        "version": 2,
        "timing": ScheduleTiming(rule=cron("0 9 * * *")),
        "contents": Contents(target="mail"),
        "progress": ScheduleProgress(fired_at=NOON, next_at=NOON),
        "created_at": NOON,
        "updated_at": NOON,
    }
    return StoredSchedule(**facts | changes)


@pytest.mark.requirement("C4")
def test_a_schedule_is_active_paused_or_finished() -> None:
    nothing_to_come = ScheduleProgress(fired_at=NOON)
    assert schedule().state == "active"
    assert schedule(progress=nothing_to_come).state == "finished"
    assert schedule(paused_at=NOON, progress=nothing_to_come).state == "paused"


@pytest.mark.requirement("C3")
def test_only_at_and_yearly_are_never_missed() -> None:
    for rule in (at("2026-11-16T09:00Z"), yearly(2, 29)):
        for catch_up in CatchUp:
            timing = ScheduleTiming(rule=rule, catch_up=catch_up)
            assert (timing.is_never_missed, timing.makes_up_all) == (True, True)
    for recurring in (cron("0 9 * * *"), every("15m")):
        timing = ScheduleTiming(rule=recurring)
        assert (timing.is_never_missed, timing.makes_up_all) == (False, False)
        assert ScheduleTiming(rule=recurring, catch_up=CatchUp.ALL).makes_up_all


@pytest.mark.requirement("C3")
@given(names, st.integers(0, 10**6), st.sampled_from(Overlap))
def test_an_occasion_is_read_back_as_it_was_stored(
    name: str, merged: int, overlap: Overlap
) -> None:
    occasion = Occasion(name, NOON, merged, overlap)
    assert decode_occasion(encode_occasion(occasion)) == occasion


@pytest.mark.requirement("C3")
def test_an_occasion_of_a_newer_version_can_still_be_read() -> None:
    stored = '{"schedule":"daily","scheduled_for":"2026-11-15T12:00:00Z","mood":"late"}'
    assert decode_occasion(stored) == Occasion("daily", NOON)


@pytest.mark.requirement("C4")
@given(names, st.floats(0, 7 * 86_400), st.integers(0, 10_000))
def test_jitter_only_delays_and_always_by_the_same_time(
    name: str, jitter: float, number: int
) -> None:
    occurrence = Occurrence(str(number), NOON + timedelta(minutes=number))
    due = due_at(name, jitter, occurrence)
    assert occurrence.at <= due <= occurrence.at + timedelta(seconds=jitter)
    moved = msgspec.structs.replace(occurrence, at=occurrence.at + timedelta(hours=1))
    assert due_at(name, jitter, moved) - moved.at == due - occurrence.at


@pytest.mark.requirement("C4")
def test_jitter_spreads_schedules_of_one_moment_evenly() -> None:
    occurrence = Occurrence("2026-11-15T12:00:00Z", NOON)
    ten = timedelta(seconds=10)
    spread = [due_at(f"user {number}", 100.0, occurrence) - NOON for number in range(10_000)]
    tenths = Counter(each // ten for each in spread)
    assert sorted(tenths) == list(range(10))
    assert all(850 < each < 1150 for each in tenths.values()), tenths


def test_the_error_for_an_unknown_schedule_has_its_name_and_a_remedy() -> None:
    error = no_schedule("dayly")
    assert (error.kind, error.name) == ("schedule", "dayly")
    assert "duly schedules list" in str(error)
