"""Schedules that are changed, paused, resumed, removed or computed with new zone data."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.domain.schedules import revisions
from duly.domain.schedules.planning import Drop
from duly.domain.schedules.schedule import Contents, decode_occasion
from duly.domain.time.rules import At, Rule, Yearly, at, cron, every, yearly
from duly.records.schedule import CatchUp, Overlap
from tests.domain.fake_store import CONTENTS, DAY, HOUR, MINUTE, NOON, SECOND, FakeStore

QUARTERS = cron("*/15 * * * *")
ALL = CatchUp.ALL
LOS_ANGELES, TOKYO = "America/Los_Angeles", "Asia/Tokyo"


def birthday(tz: str = LOS_ANGELES, month: int = 12, day: int = 1, time: str = "09:00") -> Yearly:
    return yearly(month, day, time, tz=tz)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.requirement("C1")
def test_new_contents_apply_to_the_pending_occurrence() -> None:
    store = FakeStore(QUARTERS)
    revision = store.change(NOON + MINUTE, Contents(target="sms"))
    plan = revision.plan
    assert revision.action == "changed"
    (moved,) = plan.move
    assert (moved.id, moved.occurrence) == ("n1", "2026-11-15T12:15:00Z")
    assert (plan.make, plan.drop) == ([], [])
    assert store.schedule.contents == Contents(target="sms")
    assert store.counts() == (1, 0, 0)


def test_a_new_rule_moves_the_pending_occurrence_and_makes_no_other() -> None:
    store = FakeStore(QUARTERS)
    plan = store.change(NOON + MINUTE, rule=cron("0 18 * * *")).plan
    assert (plan.make, plan.drop) == ([], [])
    assert store.moments() == [NOON + 6 * HOUR]
    assert store.schedule.progress.next_at == NOON + 6 * HOUR
    store.plan(NOON + 6 * HOUR)
    assert store.moments() == [NOON + 6 * HOUR, NOON + 30 * HOUR]


def test_a_new_rule_makes_nothing_of_its_past() -> None:
    store = FakeStore(cron("0 18 * * *"), catch_up=ALL)
    store.change(NOON + 2 * HOUR, rule=QUARTERS)
    assert store.moments() == [NOON + 2 * HOUR + 15 * MINUTE]


@pytest.mark.requirement("C1")
def test_a_claimed_occurrence_is_unchanged_and_the_change_applies_to_the_next() -> None:
    store = FakeStore(QUARTERS)
    store.claim(NOON + 15 * MINUTE)
    plan = store.change(NOON + 15 * MINUTE + SECOND, rule=cron("0 18 * * *")).plan
    assert (plan.move, plan.drop) == ([], [])
    assert store.moments() == [NOON + 15 * MINUTE, NOON + 6 * HOUR]


def test_a_change_during_an_outage_does_not_prevent_the_catch_up() -> None:
    store = FakeStore(QUARTERS)
    store.change(NOON + HOUR, contents=Contents(target="sms"))
    store.plan(NOON + HOUR)
    assert store.moments() == [NOON + HOUR, NOON + 75 * MINUTE]
    assert store.counts() == (2, 3, 0)


@pytest.mark.requirement("C4")
def test_an_earlier_end_withdraws_the_pending_occurrence_and_no_end_restores_it() -> None:
    store = FakeStore(QUARTERS)
    plan = store.change(NOON + MINUTE, ends_at=NOON + 10 * MINUTE).plan
    assert plan.drop == [("n1", Drop.WITHDRAWN)]
    assert (store.moments(), store.schedule.state, store.counts()) == ([], "finished", (0, 0, 0))
    store.change(NOON + 2 * MINUTE, ends_at=NOON + 15 * MINUTE)
    assert (store.moments(), store.counts()) == ([NOON + 15 * MINUTE], (1, 0, 0))


@pytest.mark.requirement("C4")
def test_fewer_max_runs_than_pending_runs_withdraw_the_last() -> None:
    store = FakeStore(QUARTERS)
    store.plan(NOON + 15 * MINUTE)
    store.plan(NOON + 30 * MINUTE)
    assert store.counts()[0] == 3
    store.change(NOON + 31 * MINUTE, max_runs=3)
    assert store.upcoming == NOON + 45 * MINUTE
    store.change(NOON + 32 * MINUTE, max_runs=2)
    assert (store.upcoming, store.counts()[0]) == (None, 2)
    store.change(NOON + 33 * MINUTE, max_runs=5)
    assert (store.upcoming, store.counts()[0]) == (NOON + 45 * MINUTE, 3)


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("rule", [QUARTERS, birthday("UTC", 11, 16), at("2026-11-16T09:00Z")])
def test_a_new_start_moves_the_pending_occurrence(rule: Rule) -> None:
    store = FakeStore(rule, starts_at=NOON + DAY - 3 * HOUR)
    first = store.upcoming
    assert first == utc(2026, 11, 16, 9)
    store.change(NOON + HOUR, starts_at=NOON + 2 * DAY)
    later = {None} if isinstance(rule, At) else {NOON + 2 * DAY, utc(2027, 11, 16, 9)}
    assert store.upcoming in later
    store.change(NOON + 2 * HOUR, starts_at=None)
    expected = NOON + 2 * HOUR + 15 * MINUTE if rule is QUARTERS else first
    assert store.upcoming == expected
    assert store.counts() == (1, 0, 0)


@pytest.mark.requirement("C4")
def test_a_start_changed_during_a_pause_applies_after_it() -> None:
    store = FakeStore(QUARTERS, starts_at=NOON + DAY)
    store.pause(NOON + MINUTE)
    store.change(NOON + 2 * MINUTE, starts_at=NOON + 2 * HOUR)
    store.resume(NOON + 3 * MINUTE)
    assert store.moments() == [NOON + 2 * HOUR]
    store.pause(NOON + 4 * MINUTE)
    store.change(NOON + 5 * MINUTE, starts_at=NOON + 2 * DAY)
    store.resume(NOON + 6 * MINUTE)
    assert store.moments() == [NOON + 2 * DAY]


@pytest.mark.requirement("C4")
def test_new_jitter_and_overlap_apply_to_the_pending_occurrence() -> None:
    store = FakeStore(QUARTERS)
    plan = store.change(NOON, jitter=600.0, overlap=Overlap.QUEUE).plan
    (moved,) = plan.move
    assert NOON + 15 * MINUTE < moved.due_at < NOON + 25 * MINUTE
    assert store.schedule.progress.next_at == NOON + 15 * MINUTE
    assert decode_occasion(moved.occasion).overlap is Overlap.QUEUE


@pytest.mark.requirement("C2")
def test_a_new_zone_moves_the_pending_occurrence_of_the_year() -> None:
    store = FakeStore(birthday())
    assert store.moments() == [utc(2026, 12, 1, 17)]
    store.change(NOON, rule=birthday(TOKYO))
    assert store.moments() == [utc(2026, 12, 1, 0)]
    assert store.entries["n1"].occurrence == "2026"


@pytest.mark.requirement("C2")
def test_a_year_moved_into_the_past_is_due_now_and_late() -> None:
    store = FakeStore(birthday())
    now = utc(2026, 12, 1, 10)
    store.change(now, rule=birthday(TOKYO))
    assert store.entries["n1"].due_at == utc(2026, 12, 1, 0)
    assert store.claim(now) == ["2026"]
    store.plan(now)
    assert store.moments("pending") == [utc(2027, 12, 1, 0)]


@pytest.mark.requirement("C2")
def test_a_completed_year_is_not_made_again_by_any_change() -> None:
    store = FakeStore(birthday(TOKYO))
    now = utc(2026, 12, 1, 1)
    assert store.claim(now) == ["2026"]
    store.plan(now)
    for rule in (birthday(LOS_ANGELES), birthday(TOKYO), birthday(TOKYO, 12, 24)):
        store.change(now + HOUR, rule=rule)
        assert store.moments("pending") == [rule.of_year(2027).at]  # type: ignore[union-attr]
        assert len(store.entries) == 2


@pytest.mark.requirement("C2")
def test_a_claimed_year_is_unchanged_and_the_next_one_is_in_the_new_zone() -> None:
    store = FakeStore(birthday(TOKYO))
    now = utc(2026, 12, 1, 0)
    store.claim(now)
    store.change(now, rule=birthday(LOS_ANGELES))
    assert store.entries["n1"].scheduled_for == now
    assert store.moments("pending") == [utc(2027, 12, 1, 17)]


@pytest.mark.requirement("C2")
def test_a_later_date_in_a_pending_year_stays_in_that_year() -> None:
    store = FakeStore(birthday("UTC", 6, 1))
    assert store.moments() == [utc(2027, 6, 1, 9)]
    store.change(NOON, rule=birthday("UTC", 12, 24))
    assert store.moments() == [utc(2026, 12, 24, 9)]


@pytest.mark.requirement("C2")
def test_a_skipped_leap_day_moves_to_the_next_leap_year() -> None:
    store = FakeStore(yearly(2, 28))
    store.change(NOON, rule=yearly(2, 29, feb29="skip"))
    assert store.moments() == [utc(2028, 2, 29, 9)]


@pytest.mark.requirement("C2")
def test_an_at_is_moved_by_a_new_wall_time_but_not_after_it_was_claimed() -> None:
    store = FakeStore(at("2026-11-16T09:00", tz=TOKYO))
    store.change(NOON, rule=at("2026-11-16T09:00", tz=LOS_ANGELES))
    assert store.moments() == [utc(2026, 11, 16, 17)]
    store.change(NOON, rule=at("2026-11-01T09:00", tz=LOS_ANGELES))
    assert store.claim(NOON) == ["2026-11-01T09:00:00"]
    store.change(NOON, rule=at("2026-11-01T09:00", tz=TOKYO))
    assert (store.moments("pending"), store.schedule.state) == ([], "finished")
    store.change(NOON, rule=at("2026-11-20T09:00", tz="UTC"))
    assert store.moments("pending") == [utc(2026, 11, 20, 9)]


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_kinds_may_change_into_each_other(is_cancelled: bool) -> None:
    rules = [birthday(), every("7h"), at("2026-11-20T09:00Z"), yearly(1, 1), cron("7 * * * *")]
    store, now = FakeStore(QUARTERS), NOON
    for rule in rules:
        now += MINUTE
        if is_cancelled:
            store.entries[store.schedule.progress.made_id or ""].state = "cancelled"
        store.change(now, rule=rule)
        assert store.upcoming == rule.next_after(now)
        assert store.moments("pending") == [store.upcoming]


@pytest.mark.requirement("C4")
def test_a_cancelled_occurrence_is_not_made_again_by_a_change() -> None:
    store = FakeStore(QUARTERS)
    store.entries["n1"].state = "cancelled"
    store.change(NOON + MINUTE, contents=Contents(target="sms"))
    assert store.moments("pending") == [NOON + 30 * MINUTE]


@pytest.mark.requirement("C4")
def test_a_pause_is_not_caught_up_by_default() -> None:
    store = FakeStore(QUARTERS, catch_up=ALL)
    revision = store.pause(NOON + MINUTE)
    assert revision.plan.drop == [("n1", Drop.WITHDRAWN)]
    assert (store.schedule.state, store.moments()) == ("paused", [])
    assert store.schedule.pause_reason == "why not"
    assert store.plan(NOON + HOUR) is None
    store.resume(NOON + DAY)
    assert (store.schedule.state, store.schedule.pause_reason) == ("active", None)
    assert store.moments() == [NOON + DAY + 15 * MINUTE]
    assert store.counts() == (1, 0, 0)


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(("catch_up", "runs", "merged"), [(ALL, 97, 0), (CatchUp.LATEST, 2, 95)])
def test_a_pause_is_caught_up_on_request(catch_up: CatchUp, runs: int, merged: int) -> None:
    store = FakeStore(QUARTERS, catch_up=catch_up)
    store.pause(NOON + MINUTE)
    store.resume(NOON + DAY, from_pause=True)
    assert store.counts() == (runs, merged, 0)
    assert len(store.entries) == runs


@pytest.mark.requirement("C4")
def test_a_pause_that_ends_before_the_next_occurrence_changes_nothing() -> None:
    store = FakeStore(QUARTERS)
    store.pause(NOON + MINUTE)
    store.resume(NOON + 2 * MINUTE)
    assert store.moments() == [NOON + 15 * MINUTE]
    assert store.counts() == (1, 0, 0)


@pytest.mark.requirement("C1", "C4")
def test_an_occurrence_claimed_before_the_pause_is_not_made_again() -> None:
    store = FakeStore(QUARTERS, catch_up=ALL)
    store.claim(NOON + 15 * MINUTE)
    plan = store.pause(NOON + 15 * MINUTE).plan
    assert plan.drop == []
    store.resume(NOON + 15 * MINUTE + SECOND, from_pause=True)
    assert store.moments() == [NOON + 15 * MINUTE, NOON + 30 * MINUTE]
    assert store.counts() == (2, 0, 0)


@pytest.mark.requirement("C3", "C4")
def test_an_at_that_passed_during_the_pause_is_delivered_after_it() -> None:
    store = FakeStore(at("2026-11-16T09:00", tz=TOKYO))
    store.pause(NOON)
    store.resume(NOON + 2 * DAY)
    assert store.claim(NOON + 2 * DAY) == ["2026-11-16T09:00:00"]
    assert store.schedule.state == "finished"


@pytest.mark.requirement("C4")
def test_a_second_pause_and_a_resume_without_a_pause_change_nothing() -> None:
    store = FakeStore(QUARTERS)
    active = store.schedule
    assert revisions.resume(active, NOON, lambda: "new", from_pause=True) is None
    store.pause(NOON)
    assert revisions.pause(store.schedule, "again", NOON + DAY, untouched=False) is None


@pytest.mark.requirement("C4")
def test_a_change_during_a_pause_applies_after_it() -> None:
    store = FakeStore(QUARTERS)
    store.pause(NOON)
    revision = store.change(NOON + MINUTE, rule=cron("0 18 * * *"))
    assert (revision.paused_at, revision.pause_reason) == (NOON, "why not")
    assert (store.schedule.state, store.moments()) == ("paused", [])
    store.resume(NOON + 2 * MINUTE)
    assert store.moments() == [NOON + 6 * HOUR]


def test_a_removal_cancels_the_pending_occurrence_and_keeps_the_claimed_one() -> None:
    store = FakeStore(QUARTERS)
    revision = revisions.remove(store.schedule, untouched=True)
    assert (revision.action, revision.plan.drop) == ("removed", [("n1", Drop.CANCELLED)])
    assert revisions.remove(store.schedule, untouched=False).plan.drop == []
    store.pause(NOON)
    assert revisions.remove(store.schedule, untouched=False).plan.drop == []


WALL_TIMES = [
    cron("0 9 * * *", tz="America/Vancouver"),
    yearly(11, 16, "09:00", tz="America/Vancouver"),
    at("2026-11-16T09:00", tz="America/Vancouver"),
]


def by_old_data(rule: Rule) -> FakeStore:
    """A schedule whose next occurrence was computed an hour too late, with old zone data."""
    store = FakeStore(rule, NOON + DAY - 3 * HOUR)
    right = store.upcoming
    assert right == NOON + DAY + 4 * HOUR
    entry, wrong = store.entries["n1"], right + HOUR
    entry.due_at = entry.scheduled_for = wrong
    progress = msgspec.structs.replace(store.schedule.progress, made_at=wrong, next_at=wrong)
    store.schedule = msgspec.structs.replace(store.schedule, progress=progress)
    return store


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("rule", WALL_TIMES)
@pytest.mark.parametrize("now", [NOON + DAY, NOON + DAY + 4 * HOUR + MINUTE])
def test_new_zone_data_moves_the_pending_occurrence(rule: Rule, now: datetime) -> None:
    store = by_old_data(rule)
    store.revise(revisions.rezone(store.schedule, now, untouched=True))
    assert store.moments() == [NOON + DAY + 4 * HOUR]
    assert store.schedule.progress.next_at == NOON + DAY + 4 * HOUR
    assert len(store.entries) == 1


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("rule", WALL_TIMES)
def test_new_zone_data_does_not_change_claimed_or_paused_schedules(rule: Rule) -> None:
    store = by_old_data(rule)
    before = store.schedule
    revision = revisions.rezone(before, NOON + DAY, untouched=False)
    assert revision.plan == msgspec.structs.replace(revision.plan, progress=before.progress)
    assert (revision.plan.move, revision.plan.make, revision.plan.drop) == ([], [], [])
    store.pause(NOON + DAY)
    revision = revisions.rezone(store.schedule, NOON + DAY, untouched=False)
    assert (revision.paused_at, revision.pause_reason) == (NOON + DAY, "why not")
    assert revision.plan.progress == store.schedule.progress


@pytest.mark.requirement("D15")
@pytest.mark.parametrize("rule", [QUARTERS, *WALL_TIMES])
def test_a_missing_delivery_is_made_again(rule: Rule) -> None:
    store = FakeStore(rule, NOON, max_runs=1)
    lost = store.entries.pop("n1")
    revision = store.revise(revisions.replan(store.schedule, NOON + MINUTE, store.new_id))
    assert (revision.action, store.counts()) == ("mended", (1, 0, 0))
    (found,) = store.entries.values()
    assert (found.occurrence, found.due_at) == (lost.occurrence, lost.due_at)
    assert store.schedule.progress.made_id in store.entries


operations = st.one_of(
    st.tuples(st.just("wait"), st.integers(-8, 300).map(lambda each: each * MINUTE)),
    st.tuples(st.just("plan"), st.booleans()),
    st.tuples(st.just("claim"), st.none()),
    st.tuples(
        st.just("change"),
        st.fixed_dictionaries(
            {},
            optional={
                "rule": st.sampled_from([QUARTERS, every("20m"), cron("7 * * * *"), birthday()]),
                "catch_up": st.sampled_from(CatchUp),
                "ends_at": st.none() | st.integers(0, 400).map(lambda each: NOON + each * MINUTE),
                "starts_at": st.none() | st.integers(0, 400).map(lambda each: NOON + each * MINUTE),
                "max_runs": st.sampled_from([None, 2, 9]),
                "jitter": st.sampled_from([0.0, 900.0]),
            },
        ),
    ),
    st.tuples(st.just("pause"), st.none()),
    st.tuples(st.just("resume"), st.booleans()),
)


@pytest.mark.requirement("C1", "C4")
@settings(max_examples=200)
@given(st.lists(operations, max_size=30))
def test_after_any_operations_no_occurrence_is_made_twice(
    done: list[tuple[str, Any]],
) -> None:
    store, now = FakeStore(QUARTERS, catch_up=ALL), NOON
    for operation, what in done:
        if operation == "wait":
            now += what
        elif operation == "plan":
            store.plan(now)
        elif operation == "claim":
            store.claim(now)
        elif operation == "change":
            store.change(now, **what)
        elif operation == "pause" and store.schedule.paused_at is None:
            store.pause(now)
        elif operation == "resume" and store.schedule.paused_at is not None:
            store.resume(now, from_pause=what)
        progress = store.schedule.progress
        assert (progress.made_id is None) == (progress.made is None) == (progress.next_at is None)
        assert progress.made_id is None or progress.made_id in store.entries
        assert store.schedule.state != "paused" or progress.next_at is None


def test_the_contents_stay_when_only_the_state_changes() -> None:
    store = FakeStore(QUARTERS)
    for revision in (
        store.pause(NOON),
        store.resume(NOON),
        revisions.rezone(store.schedule, NOON, untouched=True),
        revisions.replan(store.schedule, NOON, store.new_id),
        revisions.remove(store.schedule, untouched=True),
    ):
        assert (revision.contents, revision.timing) == (CONTENTS, store.schedule.timing)
