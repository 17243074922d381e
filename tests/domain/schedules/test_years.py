"""What edits do to the years of a yearly schedule, compared with a model that knows every year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.domain.schedules.planning import Planned
from duly.domain.schedules.schedule import Contents
from duly.domain.time.rules import Rule, Yearly, at, cron, every, yearly
from tests.domain.diary import DAY, HOUR, MINUTE, NOON, Diary
from tests.domain.years import Oracle

LOS_ANGELES, TOKYO = "America/Los_Angeles", "Asia/Tokyo"
IN_TWO_DAYS = yearly(11, 17)
LONG_AGO = yearly(4, 29)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.requirement("B2", "B4", "C2")
def test_an_edit_to_a_day_long_past_means_the_next_year_and_one_back_restores_this_one() -> None:
    diary = Diary(IN_TWO_DAYS)
    diary.change(NOON, rule=LONG_AGO)
    assert diary.claim(NOON) == []
    assert diary.moments() == [utc(2027, 4, 29, 9)]
    diary.change(NOON + HOUR, rule=IN_TWO_DAYS)
    assert diary.moments() == [utc(2026, 11, 17, 9)]
    assert diary.counts() == (1, 0, 0)
    assert diary.claim(NOON + 2 * DAY) == ["2026"]


@pytest.mark.requirement("B2", "C2")
@pytest.mark.parametrize(
    ("now", "greeted"),
    [(utc(2026, 12, 1, 10), ["2026"]), (utc(2026, 12, 1, 15), [])],
)
def test_past_by_an_edit_it_is_due_only_while_it_is_that_day_there(
    now: datetime, greeted: list[str]
) -> None:
    diary = Diary(yearly(12, 1, tz=LOS_ANGELES))
    diary.change(now, rule=yearly(12, 1, tz=TOKYO))
    assert diary.claim(now) == greeted
    assert diary.upcoming == utc(2027, 12, 1, 0)


@pytest.mark.requirement("B5", "C3")
@pytest.mark.parametrize("is_planned", [False, True])
def test_what_an_outage_missed_stays_due_whatever_past_day_an_edit_says(is_planned: bool) -> None:
    diary, now = Diary(IN_TWO_DAYS), NOON + 5 * DAY
    if is_planned:
        diary.plan(now)
    diary.change(now, rule=LONG_AGO)
    assert diary.claim(now + 30 * DAY) == ["2026"]
    assert diary.upcoming == utc(2027, 4, 29, 9)


@pytest.mark.requirement("B4", "B5")
@pytest.mark.parametrize("is_planned", [False, True])
def test_what_fell_due_and_was_not_claimed_moves_and_an_edit_back_makes_it_due_again(
    is_planned: bool,
) -> None:
    diary, now = Diary(IN_TWO_DAYS), NOON + 5 * DAY
    if is_planned:
        diary.plan(now)
    diary.change(now, rule=yearly(12, 24))
    assert diary.moments("pending") == [utc(2026, 12, 24, 9)]
    diary.change(now + HOUR, rule=yearly(12, 20))
    diary.change(now + DAY, rule=IN_TWO_DAYS)
    assert diary.claim(now + DAY) == ["2026"]
    assert diary.upcoming == utc(2027, 11, 17, 9)


@pytest.mark.requirement("B4", "B5")
def test_a_year_that_fell_due_before_it_was_on_the_books_is_restored_by_an_edit_back() -> None:
    diary, now = Diary(yearly(1, 1)), utc(2028, 1, 2)
    diary.change(now, rule=yearly(1, 15))
    diary.change(now, rule=yearly(1, 1))
    diary.plan(now)
    assert diary.claim(now) == ["2027", "2028"]
    assert diary.upcoming == utc(2029, 1, 1, 9)


@pytest.mark.requirement("B4")
def test_a_late_one_that_nobody_has_claimed_says_what_the_edit_says() -> None:
    diary, now = Diary(IN_TWO_DAYS), NOON + 5 * DAY
    diary.plan(now)
    plan = diary.change(now, Contents(target="sms")).plan
    assert [each.id for each in plan.move] == ["n1", "n2"]
    assert (plan.make, plan.drop) == ([], [])


@pytest.mark.requirement("B5")
def test_new_contents_make_nothing_due_that_was_past_when_the_schedule_began() -> None:
    diary = Diary(yearly(11, 15))
    assert diary.upcoming == utc(2027, 11, 15, 9)
    diary.change(NOON + MINUTE, Contents(target="sms"))
    diary.change(NOON + MINUTE, rule=yearly(11, 15, tz="Europe/London"))
    diary.change(NOON + MINUTE, rule=yearly(11, 15, "08:00"))
    assert (diary.claim(NOON + HOUR), diary.upcoming) == ([], utc(2027, 11, 15, 8))


@pytest.mark.requirement("B5")
def test_an_outage_over_new_year_leaves_no_second_greeting_to_be_made_up() -> None:
    diary, now = Diary(yearly(12, 20)), utc(2027, 1, 10)
    diary.change(now, rule=yearly(1, 5))
    diary.plan(now)
    assert diary.claim(now) == ["2026"]
    assert diary.upcoming == utc(2028, 1, 5, 9)


@pytest.mark.requirement("C4")
def test_an_end_that_goes_away_makes_nothing_due_on_another_day() -> None:
    diary = Diary(LONG_AGO, ends_at=NOON + DAY)
    assert diary.upcoming is None
    diary.change(NOON + 300 * DAY, ends_at=None)
    assert (diary.claim(NOON + 300 * DAY), diary.upcoming) == ([], utc(2028, 4, 29, 9))


@pytest.mark.requirement("C4")
def test_resuming_with_what_was_missed_makes_nothing_up_that_an_edit_put_into_the_past() -> None:
    diary = Diary(IN_TWO_DAYS, utc(2025, 12, 1))
    diary.change(NOON, rule=LONG_AGO)
    diary.pause(NOON + HOUR)
    diary.resume(NOON + DAY, from_pause=True)
    assert diary.moments() == [utc(2027, 4, 29, 9)]


@pytest.mark.requirement("C4")
def test_fewer_runs_than_years_that_are_due_withdraw_the_last() -> None:
    diary, now = Diary(IN_TWO_DAYS), NOON + 5 * DAY
    diary.plan(now)
    assert diary.counts() == (2, 0, 0)
    diary.change(now, max_runs=1)
    assert (diary.upcoming, diary.counts(), diary.claim(now)) == (None, (1, 0, 0), ["2026"])
    diary.change(now, max_runs=2)
    assert (diary.upcoming, diary.counts()) == (utc(2027, 11, 17, 9), (2, 0, 0))


class Life(msgspec.Struct, frozen=True):
    """Time passes, then maybe the planner comes, then a worker, then somebody edits."""

    wait: timedelta
    is_planned: bool
    is_claimed: bool
    edit: Yearly | str | None


ZONES = [LOS_ANGELES, TOKYO, "Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"]
rules = st.builds(
    yearly,
    st.integers(1, 12),
    st.sampled_from([1, 15, 16, 28]),
    st.sampled_from(["00:30", "09:00", "23:30"]),
    st.sampled_from(ZONES),
) | st.builds(yearly, st.just(2), st.just(29), feb29=st.sampled_from(["feb28", "mar1", "skip"]))
waits = st.one_of(
    st.integers(0, 48).map(lambda each: each * HOUR),
    st.integers(0, 400).map(lambda each: each * DAY),
)
steps = st.builds(
    Life, waits, st.booleans(), st.booleans(), st.one_of(st.none(), st.just("back"), rules)
)


@pytest.mark.requirement("B2", "B4", "B5", "C2", "C3")
@settings(max_examples=400)
@given(rules, st.lists(steps, max_size=12))
def test_whatever_is_edited_claimed_and_missed_each_year_is_greeted_when_it_should_be(
    first: Yearly, life: list[Life]
) -> None:
    diary, now, oracle, before = Diary(first), NOON, Oracle(first, NOON), first
    for step in life:
        now += step.wait
        oracle.wait(now)
        if step.is_planned:
            diary.plan(now)
        if step.is_claimed:
            _claim(diary, oracle, now, all_of_them=step.is_planned)
        if step.edit is not None:
            rule = before if isinstance(step.edit, str) else step.edit
            before = diary.schedule.timing.rule  # type: ignore[assignment]
            diary.change(now, rule=rule)
            oracle.edit(rule)
    diary.plan(now)
    _claim(diary, oracle, now, all_of_them=True)
    assert oracle.upcoming is not None
    progress = diary.schedule.progress
    assert (progress.made, progress.made_at) == (str(oracle.upcoming[0]), oracle.upcoming[1])


def _claim(diary: Diary, oracle: Oracle, now: datetime, *, all_of_them: bool) -> None:
    """Without a planner in the meantime some years may not be on the books yet."""
    greeted, due = sorted(map(int, diary.claim(now))), sorted(oracle.due)
    assert greeted == due[: None if all_of_them else len(greeted)]
    oracle.claim(greeted)


@pytest.mark.requirement("B4")
def test_one_that_was_another_rule_can_be_edited_while_an_occurrence_of_that_is_late() -> None:
    diary, now = Diary(every(HOUR)), NOON + 2 * HOUR
    diary.plan(now)
    diary.change(now, rule=yearly(3, 1))
    diary.change(now, rule=yearly(3, 2))
    assert diary.upcoming == utc(2027, 3, 2, 9)
    assert diary.claim(now)


class Lenient(Diary):
    """Passes over what was made before, as a store does: an `at` may name a moment once more."""

    def _put(self, planned: Planned) -> None:
        others = (each for id, each in self.entries.items() if id != planned.id)
        if planned.occurrence not in {each.occurrence for each in others}:
            super()._put(planned)


class Turn(msgspec.Struct, frozen=True):
    """As a life, with rules of any kind, and maybe a pause or its end."""

    wait: timedelta
    is_planned: bool
    is_claimed: bool
    edit: Rule | None
    is_switched: bool


kinds = st.one_of(
    rules,
    st.sampled_from([every(7 * HOUR), every(90 * DAY), cron("0 9 * * 1"), cron("30 4 1 */3 *")]),
    st.integers(0, 800).map(lambda each: at(NOON + each * DAY)),
)
turns = st.builds(
    Turn, waits, st.booleans(), st.booleans(), st.one_of(st.none(), kinds), st.booleans()
)


@pytest.mark.requirement("B4", "C2")
@settings(max_examples=300)
@given(kinds, st.lists(turns, max_size=10))
def test_a_schedule_may_become_one_of_any_kind_at_any_time(first: Rule, life: list[Turn]) -> None:
    diary, now = Lenient(first), NOON
    for turn in life:
        now += turn.wait
        if turn.is_planned:
            diary.plan(now)
        if turn.is_claimed:
            diary.claim(now)
        if turn.edit is not None:
            diary.change(now, rule=turn.edit)
        if turn.is_switched:
            (diary.pause if diary.schedule.paused_at is None else diary.resume)(now)
