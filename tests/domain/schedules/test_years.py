"""Changes of a yearly schedule, compared with a model that has every year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.domain.schedules.planning import Planned
from duly.domain.schedules.schedule import Contents
from duly.domain.time.rules import Rule, Yearly, at, cron, every, yearly
from tests.domain.fake_store import DAY, HOUR, MINUTE, NOON, FakeStore
from tests.domain.years import Oracle

LOS_ANGELES, TOKYO = "America/Los_Angeles", "Asia/Tokyo"
IN_TWO_DAYS = yearly(11, 17)
LONG_AGO = yearly(4, 29)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


@pytest.mark.requirement("B2", "B4", "C2")
def test_a_change_to_a_day_long_past_is_for_next_year_and_the_change_back_restores_this_year() -> (
    None
):
    store = FakeStore(IN_TWO_DAYS)
    store.change(NOON, rule=LONG_AGO)
    assert store.claim(NOON) == []
    assert store.moments() == [utc(2027, 4, 29, 9)]
    store.change(NOON + HOUR, rule=IN_TWO_DAYS)
    assert store.moments() == [utc(2026, 11, 17, 9)]
    assert store.counts() == (1, 0, 0)
    assert store.claim(NOON + 2 * DAY) == ["2026"]


@pytest.mark.requirement("B2", "C2")
@pytest.mark.parametrize(
    ("now", "greeted"),
    [(utc(2026, 12, 1, 10), ["2026"]), (utc(2026, 12, 1, 15), [])],
)
def test_a_day_moved_into_the_past_is_due_only_while_it_is_that_day_in_its_zone(
    now: datetime, greeted: list[str]
) -> None:
    store = FakeStore(yearly(12, 1, tz=LOS_ANGELES))
    store.change(now, rule=yearly(12, 1, tz=TOKYO))
    assert store.claim(now) == greeted
    assert store.upcoming == utc(2027, 12, 1, 0)


@pytest.mark.requirement("B5", "C3")
@pytest.mark.parametrize("is_planned", [False, True])
def test_a_missed_year_stays_due_after_a_change_to_any_past_day(is_planned: bool) -> None:
    store, now = FakeStore(IN_TWO_DAYS), NOON + 5 * DAY
    if is_planned:
        store.plan(now)
    store.change(now, rule=LONG_AGO)
    assert store.claim(now + 30 * DAY) == ["2026"]
    assert store.upcoming == utc(2027, 4, 29, 9)


@pytest.mark.requirement("B4", "B5")
@pytest.mark.parametrize("is_planned", [False, True])
def test_a_due_year_that_is_not_claimed_moves_and_the_change_back_makes_it_due_again(
    is_planned: bool,
) -> None:
    store, now = FakeStore(IN_TWO_DAYS), NOON + 5 * DAY
    if is_planned:
        store.plan(now)
    store.change(now, rule=yearly(12, 24))
    assert store.moments("pending") == [utc(2026, 12, 24, 9)]
    store.change(now + HOUR, rule=yearly(12, 20))
    store.change(now + DAY, rule=IN_TWO_DAYS)
    assert store.claim(now + DAY) == ["2026"]
    assert store.upcoming == utc(2027, 11, 17, 9)


@pytest.mark.requirement("B4", "B5")
def test_a_year_that_was_due_before_it_was_planned_is_restored_by_the_change_back() -> None:
    store, now = FakeStore(yearly(1, 1)), utc(2028, 1, 2)
    store.change(now, rule=yearly(1, 15))
    store.change(now, rule=yearly(1, 1))
    store.plan(now)
    assert store.claim(now) == ["2027", "2028"]
    assert store.upcoming == utc(2029, 1, 1, 9)


@pytest.mark.requirement("B4")
def test_a_late_year_that_is_not_claimed_gets_the_new_contents() -> None:
    store, now = FakeStore(IN_TWO_DAYS), NOON + 5 * DAY
    store.plan(now)
    plan = store.change(now, Contents(target="sms")).plan
    assert [each.id for each in plan.move] == ["n1", "n2"]
    assert (plan.make, plan.drop) == ([], [])


@pytest.mark.requirement("B5")
def test_new_contents_make_no_year_due_from_before_the_schedule() -> None:
    store = FakeStore(yearly(11, 15))
    assert store.upcoming == utc(2027, 11, 15, 9)
    store.change(NOON + MINUTE, Contents(target="sms"))
    store.change(NOON + MINUTE, rule=yearly(11, 15, tz="Europe/London"))
    store.change(NOON + MINUTE, rule=yearly(11, 15, "08:00"))
    assert (store.claim(NOON + HOUR), store.upcoming) == ([], utc(2027, 11, 15, 8))


@pytest.mark.requirement("B5")
def test_after_an_outage_over_new_year_no_second_year_is_caught_up() -> None:
    store, now = FakeStore(yearly(12, 20)), utc(2027, 1, 10)
    store.change(now, rule=yearly(1, 5))
    store.plan(now)
    assert store.claim(now) == ["2026"]
    assert store.upcoming == utc(2028, 1, 5, 9)


@pytest.mark.requirement("C4")
def test_removing_the_end_makes_nothing_due_on_another_day() -> None:
    store = FakeStore(LONG_AGO, ends_at=NOON + DAY)
    assert store.upcoming is None
    store.change(NOON + 300 * DAY, ends_at=None)
    assert (store.claim(NOON + 300 * DAY), store.upcoming) == ([], utc(2028, 4, 29, 9))


@pytest.mark.requirement("C4")
def test_a_resume_with_catch_up_does_not_make_years_that_a_change_moved_into_the_past() -> None:
    store = FakeStore(IN_TWO_DAYS, utc(2025, 12, 1))
    store.change(NOON, rule=LONG_AGO)
    store.pause(NOON + HOUR)
    store.resume(NOON + DAY, from_pause=True)
    assert store.moments() == [utc(2027, 4, 29, 9)]


@pytest.mark.requirement("C4")
def test_fewer_max_runs_than_due_years_withdraw_the_last() -> None:
    store, now = FakeStore(IN_TWO_DAYS), NOON + 5 * DAY
    store.plan(now)
    assert store.counts() == (2, 0, 0)
    store.change(now, max_runs=1)
    assert (store.upcoming, store.counts(), store.claim(now)) == (None, (1, 0, 0), ["2026"])
    store.change(now, max_runs=2)
    assert (store.upcoming, store.counts()) == (utc(2027, 11, 17, 9), (2, 0, 0))


class Step(msgspec.Struct, frozen=True):
    """Time passes, then optionally the planner runs, a worker claims, and the rule is changed."""

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
    Step, waits, st.booleans(), st.booleans(), st.one_of(st.none(), st.just("back"), rules)
)


@pytest.mark.requirement("B2", "B4", "B5", "C2", "C3")
@settings(max_examples=200)
@given(rules, st.lists(steps, max_size=12))
def test_after_any_changes_claims_and_outages_each_year_is_as_in_the_model(
    first: Yearly, history: list[Step]
) -> None:
    store, now, oracle, before = FakeStore(first), NOON, Oracle(first, NOON), first
    for step in history:
        now += step.wait
        oracle.wait(now)
        if step.is_planned:
            store.plan(now)
        if step.is_claimed:
            _claim(store, oracle, now, all_of_them=step.is_planned)
        if step.edit is not None:
            rule = before if isinstance(step.edit, str) else step.edit
            before = store.schedule.timing.rule  # type: ignore[assignment]
            store.change(now, rule=rule)
            oracle.edit(rule)
    store.plan(now)
    _claim(store, oracle, now, all_of_them=True)
    assert oracle.upcoming is not None
    progress = store.schedule.progress
    assert (progress.made, progress.made_at) == (str(oracle.upcoming[0]), oracle.upcoming[1])


def _claim(store: FakeStore, oracle: Oracle, now: datetime, *, all_of_them: bool) -> None:
    """Claim and compare; without a planner some years may not be planned yet."""
    greeted, due = sorted(map(int, store.claim(now))), sorted(oracle.due)
    assert greeted == due[: None if all_of_them else len(greeted)]
    oracle.claim(greeted)


@pytest.mark.requirement("B4")
def test_a_change_from_another_rule_is_possible_while_its_occurrence_is_late() -> None:
    store, now = FakeStore(every(HOUR)), NOON + 2 * HOUR
    store.plan(now)
    store.change(now, rule=yearly(3, 1))
    store.change(now, rule=yearly(3, 2))
    assert store.upcoming == utc(2027, 3, 2, 9)
    assert store.claim(now)


class Lenient(FakeStore):
    """Ignores occurrences that exist, as a real store does: an `at` may name a moment again."""

    def _put(self, planned: Planned) -> None:
        others = (each for id, each in self.entries.items() if id != planned.id)
        if planned.occurrence not in {each.occurrence for each in others}:
            super()._put(planned)


class Turn(msgspec.Struct, frozen=True):
    """Like a step, with rules of any kind, and optionally a pause or a resume."""

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
@settings(max_examples=150)
@given(kinds, st.lists(turns, max_size=10))
def test_a_schedule_may_become_one_of_any_kind_at_any_time(
    first: Rule, history: list[Turn]
) -> None:
    store, now = Lenient(first), NOON
    for turn in history:
        now += turn.wait
        if turn.is_planned:
            store.plan(now)
        if turn.is_claimed:
            store.claim(now)
        if turn.edit is not None:
            store.change(now, rule=turn.edit)
        if turn.is_switched:
            (store.pause if store.schedule.paused_at is None else store.resume)(now)
