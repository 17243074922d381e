"""What becomes of a schedule that is declared anew, paused, resumed, removed or computed anew."""

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
from tests.domain.diary import CONTENTS, DAY, HOUR, MINUTE, NOON, SECOND, Diary

QUARTERS = cron("*/15 * * * *")
ALL = CatchUp.ALL
LOS_ANGELES, TOKYO = "America/Los_Angeles", "Asia/Tokyo"


def birthday(tz: str = LOS_ANGELES, month: int = 12, day: int = 1, time: str = "09:00") -> Yearly:
    return yearly(month, day, time, tz=tz)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.requirement("C1")
def test_other_contents_move_with_the_same_occurrence() -> None:
    diary = Diary(QUARTERS)
    revision = diary.change(NOON + MINUTE, Contents(target="sms"))
    plan = revision.plan
    assert revision.action == "changed"
    (moved,) = plan.move
    assert (moved.id, moved.occurrence) == ("n1", "2026-11-15T12:15:00Z")
    assert (plan.make, plan.drop) == ([], [])
    assert diary.schedule.contents == Contents(target="sms")
    assert diary.counts() == (1, 0, 0)


def test_a_new_rule_moves_what_is_pending_and_makes_nothing_beside_it() -> None:
    diary = Diary(QUARTERS)
    plan = diary.change(NOON + MINUTE, rule=cron("0 18 * * *")).plan
    assert (plan.make, plan.drop) == ([], [])
    assert diary.moments() == [NOON + 6 * HOUR]
    assert diary.schedule.progress.next_at == NOON + 6 * HOUR
    diary.plan(NOON + 6 * HOUR)
    assert diary.moments() == [NOON + 6 * HOUR, NOON + 30 * HOUR]


def test_a_new_rule_makes_nothing_of_its_past() -> None:
    diary = Diary(cron("0 18 * * *"), catch_up=ALL)
    diary.change(NOON + 2 * HOUR, rule=QUARTERS)
    assert diary.moments() == [NOON + 2 * HOUR + 15 * MINUTE]


@pytest.mark.requirement("C1")
def test_what_was_claimed_stays_as_it_was_and_the_change_shows_from_the_next_on() -> None:
    diary = Diary(QUARTERS)
    diary.claim(NOON + 15 * MINUTE)
    plan = diary.change(NOON + 15 * MINUTE + SECOND, rule=cron("0 18 * * *")).plan
    assert (plan.move, plan.drop) == ([], [])
    assert diary.moments() == [NOON + 15 * MINUTE, NOON + 6 * HOUR]


def test_a_change_during_an_outage_still_catches_up_by_the_same_rule() -> None:
    diary = Diary(QUARTERS)
    diary.change(NOON + HOUR, contents=Contents(target="sms"))
    diary.plan(NOON + HOUR)
    assert diary.moments() == [NOON + HOUR, NOON + 75 * MINUTE]
    assert diary.counts() == (2, 3, 0)


@pytest.mark.requirement("C4")
def test_an_end_that_comes_nearer_withdraws_and_one_that_goes_away_brings_back() -> None:
    diary = Diary(QUARTERS)
    plan = diary.change(NOON + MINUTE, ends_at=NOON + 10 * MINUTE).plan
    assert plan.drop == [("n1", Drop.WITHDRAWN)]
    assert (diary.moments(), diary.schedule.state, diary.counts()) == ([], "finished", (0, 0, 0))
    diary.change(NOON + 2 * MINUTE, ends_at=NOON + 15 * MINUTE)
    assert (diary.moments(), diary.counts()) == ([NOON + 15 * MINUTE], (1, 0, 0))


@pytest.mark.requirement("C4")
def test_fewer_runs_than_are_on_the_books_withdraw_the_last() -> None:
    diary = Diary(QUARTERS)
    diary.plan(NOON + 15 * MINUTE)
    diary.plan(NOON + 30 * MINUTE)
    assert diary.counts()[0] == 3
    diary.change(NOON + 31 * MINUTE, max_runs=3)
    assert diary.upcoming == NOON + 45 * MINUTE
    diary.change(NOON + 32 * MINUTE, max_runs=2)
    assert (diary.upcoming, diary.counts()[0]) == (None, 2)
    diary.change(NOON + 33 * MINUTE, max_runs=5)
    assert (diary.upcoming, diary.counts()[0]) == (NOON + 45 * MINUTE, 3)


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("rule", [QUARTERS, birthday("UTC", 11, 16), at("2026-11-16T09:00Z")])
def test_a_start_that_is_moved_moves_what_is_pending(rule: Rule) -> None:
    diary = Diary(rule, starts_at=NOON + DAY - 3 * HOUR)
    first = diary.upcoming
    assert first == utc(2026, 11, 16, 9)
    diary.change(NOON + HOUR, starts_at=NOON + 2 * DAY)
    later = {None} if isinstance(rule, At) else {NOON + 2 * DAY, utc(2027, 11, 16, 9)}
    assert diary.upcoming in later
    diary.change(NOON + 2 * HOUR, starts_at=None)
    expected = NOON + 2 * HOUR + 15 * MINUTE if rule is QUARTERS else first
    assert diary.upcoming == expected
    assert diary.counts() == (1, 0, 0)


@pytest.mark.requirement("C4")
def test_a_start_that_was_moved_while_paused_counts_when_it_is_resumed() -> None:
    diary = Diary(QUARTERS, starts_at=NOON + DAY)
    diary.pause(NOON + MINUTE)
    diary.change(NOON + 2 * MINUTE, starts_at=NOON + 2 * HOUR)
    diary.resume(NOON + 3 * MINUTE)
    assert diary.moments() == [NOON + 2 * HOUR]
    diary.pause(NOON + 4 * MINUTE)
    diary.change(NOON + 5 * MINUTE, starts_at=NOON + 2 * DAY)
    diary.resume(NOON + 6 * MINUTE)
    assert diary.moments() == [NOON + 2 * DAY]


@pytest.mark.requirement("C4")
def test_jitter_and_overlap_that_change_are_written_on_what_is_pending() -> None:
    diary = Diary(QUARTERS)
    plan = diary.change(NOON, jitter=600.0, overlap=Overlap.QUEUE).plan
    (moved,) = plan.move
    assert NOON + 15 * MINUTE < moved.due_at < NOON + 25 * MINUTE
    assert diary.schedule.progress.next_at == NOON + 15 * MINUTE
    assert decode_occasion(moved.occasion).overlap is Overlap.QUEUE


@pytest.mark.requirement("C2")
def test_an_edited_zone_moves_the_same_year_to_where_it_belongs() -> None:
    diary = Diary(birthday())
    assert diary.moments() == [utc(2026, 12, 1, 17)]
    diary.change(NOON, rule=birthday(TOKYO))
    assert diary.moments() == [utc(2026, 12, 1, 0)]
    assert diary.entries["n1"].occurrence == "2026"


@pytest.mark.requirement("C2")
def test_a_year_that_an_edit_moves_into_the_past_is_due_now_and_late() -> None:
    diary = Diary(birthday())
    now = utc(2026, 12, 1, 10)
    diary.change(now, rule=birthday(TOKYO))
    assert diary.entries["n1"].due_at == utc(2026, 12, 1, 0)
    assert diary.claim(now) == ["2026"]
    diary.plan(now)
    assert diary.moments("pending") == [utc(2027, 12, 1, 0)]


@pytest.mark.requirement("C2")
def test_a_year_that_was_done_is_not_done_again_by_any_edit() -> None:
    diary = Diary(birthday(TOKYO))
    now = utc(2026, 12, 1, 1)
    assert diary.claim(now) == ["2026"]
    diary.plan(now)
    for rule in (birthday(LOS_ANGELES), birthday(TOKYO), birthday(TOKYO, 12, 24)):
        diary.change(now + HOUR, rule=rule)
        assert diary.moments("pending") == [rule.of_year(2027).at]  # type: ignore[union-attr]
        assert len(diary.entries) == 2


@pytest.mark.requirement("C2")
def test_a_year_that_was_claimed_goes_out_unchanged_and_the_next_one_is_by_the_new_zone() -> None:
    diary = Diary(birthday(TOKYO))
    now = utc(2026, 12, 1, 0)
    diary.claim(now)
    diary.change(now, rule=birthday(LOS_ANGELES))
    assert diary.entries["n1"].scheduled_for == now
    assert diary.moments("pending") == [utc(2027, 12, 1, 17)]


@pytest.mark.requirement("C2")
def test_a_date_later_in_a_year_not_yet_done_is_of_that_year() -> None:
    diary = Diary(birthday("UTC", 6, 1))
    assert diary.moments() == [utc(2027, 6, 1, 9)]
    diary.change(NOON, rule=birthday("UTC", 12, 24))
    assert diary.moments() == [utc(2026, 12, 24, 9)]


@pytest.mark.requirement("C2")
def test_a_leap_day_that_falls_out_this_year_goes_on_to_one_that_has_it() -> None:
    diary = Diary(yearly(2, 28))
    diary.change(NOON, rule=yearly(2, 29, feb29="skip"))
    assert diary.moments() == [utc(2028, 2, 29, 9)]


@pytest.mark.requirement("C2")
def test_an_at_is_moved_by_its_new_wall_time_and_never_again_once_it_was_claimed() -> None:
    diary = Diary(at("2026-11-16T09:00", tz=TOKYO))
    diary.change(NOON, rule=at("2026-11-16T09:00", tz=LOS_ANGELES))
    assert diary.moments() == [utc(2026, 11, 16, 17)]
    diary.change(NOON, rule=at("2026-11-01T09:00", tz=LOS_ANGELES))
    assert diary.claim(NOON) == ["2026-11-01T09:00:00"]
    diary.change(NOON, rule=at("2026-11-01T09:00", tz=TOKYO))
    assert (diary.moments("pending"), diary.schedule.state) == ([], "finished")
    diary.change(NOON, rule=at("2026-11-20T09:00", tz="UTC"))
    assert diary.moments("pending") == [utc(2026, 11, 20, 9)]


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_kinds_may_change_into_each_other(is_cancelled: bool) -> None:
    rules = [birthday(), every("7h"), at("2026-11-20T09:00Z"), yearly(1, 1), cron("7 * * * *")]
    diary, now = Diary(QUARTERS), NOON
    for rule in rules:
        now += MINUTE
        if is_cancelled:
            diary.entries[diary.schedule.progress.made_id or ""].state = "cancelled"
        diary.change(now, rule=rule)
        assert diary.upcoming == rule.next_after(now)
        assert diary.moments("pending") == [diary.upcoming]


@pytest.mark.requirement("C4")
def test_an_occurrence_that_somebody_cancelled_is_not_made_again_by_a_change() -> None:
    diary = Diary(QUARTERS)
    diary.entries["n1"].state = "cancelled"
    diary.change(NOON + MINUTE, contents=Contents(target="sms"))
    assert diary.moments("pending") == [NOON + 30 * MINUTE]


@pytest.mark.requirement("C4")
def test_paused_time_makes_no_burst() -> None:
    diary = Diary(QUARTERS, catch_up=ALL)
    revision = diary.pause(NOON + MINUTE)
    assert revision.plan.drop == [("n1", Drop.WITHDRAWN)]
    assert (diary.schedule.state, diary.moments()) == ("paused", [])
    assert diary.schedule.pause_reason == "why not"
    assert diary.plan(NOON + HOUR) is None
    diary.resume(NOON + DAY)
    assert (diary.schedule.state, diary.schedule.pause_reason) == ("active", None)
    assert diary.moments() == [NOON + DAY + 15 * MINUTE]
    assert diary.counts() == (1, 0, 0)


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(("catch_up", "runs", "merged"), [(ALL, 97, 0), (CatchUp.LATEST, 2, 95)])
def test_paused_time_is_caught_up_when_that_is_asked_for(
    catch_up: CatchUp, runs: int, merged: int
) -> None:
    diary = Diary(QUARTERS, catch_up=catch_up)
    diary.pause(NOON + MINUTE)
    diary.resume(NOON + DAY, from_pause=True)
    assert diary.counts() == (runs, merged, 0)
    assert len(diary.entries) == runs


@pytest.mark.requirement("C4")
def test_a_pause_shorter_than_the_wait_changes_nothing() -> None:
    diary = Diary(QUARTERS)
    diary.pause(NOON + MINUTE)
    diary.resume(NOON + 2 * MINUTE)
    assert diary.moments() == [NOON + 15 * MINUTE]
    assert diary.counts() == (1, 0, 0)


@pytest.mark.requirement("C1", "C4")
def test_what_was_under_way_when_it_was_paused_is_not_made_again() -> None:
    diary = Diary(QUARTERS, catch_up=ALL)
    diary.claim(NOON + 15 * MINUTE)
    plan = diary.pause(NOON + 15 * MINUTE).plan
    assert plan.drop == []
    diary.resume(NOON + 15 * MINUTE + SECOND, from_pause=True)
    assert diary.moments() == [NOON + 15 * MINUTE, NOON + 30 * MINUTE]
    assert diary.counts() == (2, 0, 0)


@pytest.mark.requirement("C3", "C4")
def test_an_at_that_passed_during_the_pause_is_delivered_after_it() -> None:
    diary = Diary(at("2026-11-16T09:00", tz=TOKYO))
    diary.pause(NOON)
    diary.resume(NOON + 2 * DAY)
    assert diary.claim(NOON + 2 * DAY) == ["2026-11-16T09:00:00"]
    assert diary.schedule.state == "finished"


@pytest.mark.requirement("C4")
def test_pausing_twice_and_resuming_what_runs_change_nothing() -> None:
    diary = Diary(QUARTERS)
    active = diary.schedule
    assert revisions.resume(active, NOON, lambda: "new", from_pause=True) is None
    diary.pause(NOON)
    assert revisions.pause(diary.schedule, "again", NOON + DAY, untouched=False) is None


@pytest.mark.requirement("C4")
def test_a_change_while_paused_counts_when_it_is_resumed() -> None:
    diary = Diary(QUARTERS)
    diary.pause(NOON)
    revision = diary.change(NOON + MINUTE, rule=cron("0 18 * * *"))
    assert (revision.paused_at, revision.pause_reason) == (NOON, "why not")
    assert (diary.schedule.state, diary.moments()) == ("paused", [])
    diary.resume(NOON + 2 * MINUTE)
    assert diary.moments() == [NOON + 6 * HOUR]


def test_removing_cancels_what_is_pending_and_leaves_what_is_under_way() -> None:
    diary = Diary(QUARTERS)
    revision = revisions.remove(diary.schedule, untouched=True)
    assert (revision.action, revision.plan.drop) == ("removed", [("n1", Drop.CANCELLED)])
    assert revisions.remove(diary.schedule, untouched=False).plan.drop == []
    diary.pause(NOON)
    assert revisions.remove(diary.schedule, untouched=False).plan.drop == []


WALL_TIMES = [
    cron("0 9 * * *", tz="America/Vancouver"),
    yearly(11, 16, "09:00", tz="America/Vancouver"),
    at("2026-11-16T09:00", tz="America/Vancouver"),
]


def by_old_data(rule: Rule) -> Diary:
    """A schedule whose next occurrence was computed an hour later than today's data says."""
    diary = Diary(rule, NOON + DAY - 3 * HOUR)
    right = diary.upcoming
    assert right == NOON + DAY + 4 * HOUR
    entry, wrong = diary.entries["n1"], right + HOUR
    entry.due_at = entry.scheduled_for = wrong
    progress = msgspec.structs.replace(diary.schedule.progress, made_at=wrong, next_at=wrong)
    diary.schedule = msgspec.structs.replace(diary.schedule, progress=progress)
    return diary


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("rule", WALL_TIMES)
@pytest.mark.parametrize("now", [NOON + DAY, NOON + DAY + 4 * HOUR + MINUTE])
def test_new_zone_data_moves_what_is_pending(rule: Rule, now: datetime) -> None:
    diary = by_old_data(rule)
    diary.revise(revisions.rezone(diary.schedule, now, untouched=True))
    assert diary.moments() == [NOON + DAY + 4 * HOUR]
    assert diary.schedule.progress.next_at == NOON + DAY + 4 * HOUR
    assert len(diary.entries) == 1


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("rule", WALL_TIMES)
def test_new_zone_data_leaves_alone_what_was_claimed_or_is_paused(rule: Rule) -> None:
    diary = by_old_data(rule)
    before = diary.schedule
    revision = revisions.rezone(before, NOON + DAY, untouched=False)
    assert revision.plan == msgspec.structs.replace(revision.plan, progress=before.progress)
    assert (revision.plan.move, revision.plan.make, revision.plan.drop) == ([], [], [])
    diary.pause(NOON + DAY)
    revision = revisions.rezone(diary.schedule, NOON + DAY, untouched=False)
    assert (revision.paused_at, revision.pause_reason) == (NOON + DAY, "why not")
    assert revision.plan.progress == diary.schedule.progress


@pytest.mark.requirement("D15")
@pytest.mark.parametrize("rule", [QUARTERS, *WALL_TIMES])
def test_what_was_lost_from_the_books_is_made_again(rule: Rule) -> None:
    diary = Diary(rule, NOON, max_runs=1)
    lost = diary.entries.pop("n1")
    revision = diary.revise(revisions.replan(diary.schedule, NOON + MINUTE, diary.new_id))
    assert (revision.action, diary.counts()) == ("mended", (1, 0, 0))
    (found,) = diary.entries.values()
    assert (found.occurrence, found.due_at) == (lost.occurrence, lost.due_at)
    assert diary.schedule.progress.made_id in diary.entries


deeds = st.one_of(
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
@settings(max_examples=400)
@given(st.lists(deeds, max_size=30))
def test_whatever_people_do_to_a_schedule_no_occurrence_is_made_twice(
    done: list[tuple[str, Any]],
) -> None:
    diary, now = Diary(QUARTERS, catch_up=ALL), NOON
    for deed, what in done:
        if deed == "wait":
            now += what
        elif deed == "plan":
            diary.plan(now)
        elif deed == "claim":
            diary.claim(now)
        elif deed == "change":
            diary.change(now, **what)
        elif deed == "pause" and diary.schedule.paused_at is None:
            diary.pause(now)
        elif deed == "resume" and diary.schedule.paused_at is not None:
            diary.resume(now, from_pause=what)
        progress = diary.schedule.progress
        assert (progress.made_id is None) == (progress.made is None) == (progress.next_at is None)
        assert progress.made_id is None or progress.made_id in diary.entries
        assert diary.schedule.state != "paused" or progress.next_at is None


def test_the_contents_stay_when_only_the_state_changes() -> None:
    diary = Diary(QUARTERS)
    for revision in (
        diary.pause(NOON),
        diary.resume(NOON),
        revisions.rezone(diary.schedule, NOON, untouched=True),
        revisions.replan(diary.schedule, NOON, diary.new_id),
        revisions.remove(diary.schedule, untouched=True),
    ):
        assert (revision.contents, revision.timing) == (CONTENTS, diary.schedule.timing)
