"""Planning: which occurrences are made, merged or skipped, and that none is made twice."""

import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any, NamedTuple

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from duly.domain.schedules.planning import STILL_FRESH, Drop
from duly.domain.schedules.schedule import due_at
from duly.domain.time.rules import Cron, Every, Occurrence, Rule, at, cron, every, yearly
from duly.records.schedule import CatchUp
from tests.domain.fake_store import DAY, HOUR, MINUTE, NOON, SECOND, FakeStore

QUARTERS = cron("*/15 * * * *")
INSTANT = timedelta(microseconds=1)
ALL, LATEST, SKIP = CatchUp.ALL, CatchUp.LATEST, CatchUp.SKIP


@pytest.mark.requirement("C1")
def test_the_next_occurrence_is_made_from_the_start() -> None:
    store = FakeStore(QUARTERS, NOON)
    assert store.moments() == [NOON + 15 * MINUTE]
    assert store.upcoming == store.schedule.progress.next_at == NOON + 15 * MINUTE
    assert store.counts() == (1, 0, 0)
    assert store.plan(NOON + 14 * MINUTE) is None


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("catch_up", CatchUp)
def test_when_an_occurrence_is_due_only_the_next_one_is_made(catch_up: CatchUp) -> None:
    store = FakeStore(QUARTERS, catch_up=catch_up)
    for turn in range(1, 20):
        plan = store.plan(NOON + turn * 15 * MINUTE + SECOND)
        assert plan is not None
        assert (len(plan.make), plan.move, plan.drop) == (1, [], [])
        store.claim(NOON + turn * 15 * MINUTE + SECOND)
    assert store.moments() == [NOON + each * 15 * MINUTE for each in range(1, 21)]
    assert store.counts() == (20, 0, 0)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("claimed", [False, True])
def test_all_makes_each_of_a_days_missed_quarters_oldest_first(claimed: bool) -> None:
    store = FakeStore(QUARTERS, catch_up=ALL)
    if claimed:
        store.claim(NOON + HOUR)
    plan = store.plan(NOON + DAY)
    assert plan is not None
    assert store.moments() == [NOON + each * 15 * MINUTE for each in range(1, 98)]
    assert [each.due_at for each in plan.make] == store.moments()[1:]
    assert store.counts() == (97, 0, 0)
    assert store.claim(NOON + DAY)[-1] == "2026-11-16T12:00:00Z"


@pytest.mark.requirement("C3")
def test_all_ends_at_the_cap_and_merges_the_rest_into_the_last() -> None:
    store = FakeStore(QUARTERS, catch_up=ALL, cap=10)
    store.plan(NOON + DAY)
    late = [each for each in store.entries.values() if each.due_at <= NOON + DAY]
    assert [each.merged for each in late] == [0] * 9 + [86]
    assert [each.scheduled_for for each in late] == store.moments()[:10]
    assert store.counts() == (11, 86, 0)
    assert store.upcoming == NOON + DAY + 15 * MINUTE


@pytest.mark.requirement("C3")
def test_a_cap_of_one_merges_all_into_the_pending_one() -> None:
    store = FakeStore(QUARTERS, catch_up=ALL, cap=1)
    plan = store.plan(NOON + DAY)
    assert plan is not None
    assert len(plan.move) == 1
    assert [each.merged for each in store.entries.values()] == [95, 0]
    assert store.moments() == [NOON + 15 * MINUTE, NOON + DAY + 15 * MINUTE]
    assert store.counts() == (2, 95, 0)


@pytest.mark.requirement("C3")
def test_a_claimed_occurrence_does_not_count_for_the_cap() -> None:
    store = FakeStore(QUARTERS, catch_up=ALL, cap=1)
    store.claim(NOON + 16 * MINUTE)
    store.plan(NOON + DAY)
    assert [each.merged for each in store.entries.values()] == [0, 94, 0]
    assert store.counts() == (3, 94, 0)


@pytest.mark.requirement("C3")
def test_latest_moves_the_pending_one_to_the_latest_occurrence() -> None:
    store = FakeStore(QUARTERS)
    plan = store.plan(NOON + DAY + SECOND)
    assert plan is not None
    assert (len(plan.move), plan.drop, plan.merged) == (1, [], 95)
    assert store.moments() == [NOON + DAY, NOON + DAY + 15 * MINUTE]
    assert [each.merged for each in store.entries.values()] == [95, 0]
    assert store.claim(NOON + DAY + SECOND) == ["2026-11-16T12:00:00Z"]
    assert store.counts() == (2, 95, 0)


@pytest.mark.requirement("C3")
def test_latest_does_not_change_a_claimed_occurrence() -> None:
    store = FakeStore(QUARTERS)
    assert store.claim(NOON + 16 * MINUTE) == ["2026-11-15T12:15:00Z"]
    plan = store.plan(NOON + DAY + SECOND)
    assert plan is not None
    assert plan.move == []
    assert [each.merged for each in store.entries.values()] == [0, 94, 0]
    assert store.counts() == (3, 94, 0)


@pytest.mark.requirement("C3")
def test_latest_is_the_default_of_cron_and_every() -> None:
    for rule in (QUARTERS, every("15m")):
        assert FakeStore(rule).schedule.timing.catch_up is LATEST


@pytest.mark.requirement("C3")
def test_skip_makes_only_occurrences_that_are_at_most_a_minute_late() -> None:
    store = FakeStore(QUARTERS, catch_up=SKIP)
    plan = store.plan(NOON + DAY + SECOND)
    assert plan is not None
    assert plan.drop == [("n1", Drop.SKIPPED)]
    assert store.moments() == [NOON + DAY, NOON + DAY + 15 * MINUTE]
    assert store.moments("skipped") == [NOON + 15 * MINUTE]
    assert store.counts() == (2, 0, 95)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(("late", "is_run"), [(STILL_FRESH, True), (STILL_FRESH + INSTANT, False)])
@pytest.mark.parametrize("is_pending", [True, False])
def test_a_minute_late_is_not_skipped_and_more_is(
    late: timedelta, is_run: bool, is_pending: bool
) -> None:
    first = NOON + 15 * MINUTE
    due = first if is_pending else first + HOUR
    store = FakeStore(QUARTERS, catch_up=SKIP)
    store.plan(due + late)
    assert (due in store.moments()) is is_run
    assert sum(store.counts()[1:]) == (0 if is_pending else 4) + (not is_run)


@pytest.mark.requirement("C3")
def test_skip_does_not_change_a_claimed_occurrence_however_late() -> None:
    store = FakeStore(QUARTERS, catch_up=SKIP)
    store.claim(NOON + 15 * MINUTE)
    plan = store.plan(NOON + HOUR)
    assert plan is not None
    assert plan.drop == []
    assert store.moments() == [NOON + each * MINUTE for each in (15, 60, 75)]
    assert store.counts() == (3, 0, 2)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("catch_up", [ALL, LATEST])
@pytest.mark.parametrize(("window", "inside"), [(3600.0, 5), (3599.999999, 4), (0.0, 1)])
def test_occurrences_older_than_the_window_are_skipped_and_counted(
    catch_up: CatchUp, window: float, inside: int
) -> None:
    store = FakeStore(QUARTERS, catch_up=catch_up, window=window)
    store.plan(NOON + DAY)
    made = 1 if catch_up is LATEST else inside
    late = [each for each in store.moments() if each <= NOON + DAY]
    assert late == [NOON + DAY - each * 15 * MINUTE for each in range(made)][::-1]
    assert store.counts() == (made + 1, inside - made, 96 - inside)


@pytest.mark.requirement("C3")
def test_an_empty_window_makes_only_the_next_occurrence() -> None:
    for catch_up in (ALL, LATEST):
        store = FakeStore(cron("0 0 * * *"), catch_up=catch_up, window=60.0)
        plan = store.plan(NOON + DAY)
        assert plan is not None
        assert plan.drop == [("n1", Drop.SKIPPED)]
        assert store.moments() == [NOON + DAY + 12 * HOUR]
        assert store.counts() == (1, 0, 1)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("timing", [
    {"catch_up": SKIP}, {"catch_up": ALL, "cap": 1}, {"window": 1.0}, {"catch_up": LATEST},
])  # fmt: skip
def test_yearly_and_at_are_caught_up_however_late_and_with_any_options(
    timing: dict[str, Any],
) -> None:
    birthday = FakeStore(yearly(12, 1, "09:00", tz="Asia/Tokyo"), **timing)
    birthday.plan(NOON + 3 * 365 * DAY)
    assert [each.year for each in birthday.moments("pending")] == [2026, 2027, 2028, 2029]
    assert birthday.counts() == (4, 0, 0)
    once = FakeStore(at("2026-12-01T09:00", tz="Europe/Oslo"), **timing)
    once.plan(NOON + 3 * 365 * DAY)
    assert once.moments("pending") == [datetime(2026, 12, 1, 8, tzinfo=UTC)]
    assert (once.counts(), once.schedule.state) == ((1, 0, 0), "finished")


@pytest.mark.requirement("C3")
def test_an_at_in_the_past_is_due_at_once_and_a_cron_has_no_past() -> None:
    late = FakeStore(at("2026-11-01T09:00Z"))
    assert late.claim(NOON) == ["2026-11-01T09:00:00Z"]
    assert late.schedule.state == "finished"
    assert FakeStore(QUARTERS).claim(NOON) == []
    assert FakeStore(yearly(11, 15, "11:59")).upcoming == datetime(2027, 11, 15, 11, 59, tzinfo=UTC)


@pytest.mark.requirement("C4")
def test_start_and_end_are_both_included() -> None:
    begin, end = NOON + HOUR, NOON + 2 * HOUR
    store = FakeStore(QUARTERS, starts_at=begin, ends_at=end, catch_up=ALL)
    assert store.moments() == [begin]
    for minute in range(300):
        store.plan(NOON + minute * MINUTE)
    assert store.moments() == [begin + each * 15 * MINUTE for each in range(5)]
    assert store.schedule.state == "finished"


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("catch_up", [ALL, LATEST])
def test_occurrences_missed_before_the_end_are_caught_up_after_it(catch_up: CatchUp) -> None:
    store = FakeStore(QUARTERS, ends_at=NOON + HOUR, catch_up=catch_up)
    store.plan(NOON + DAY)
    quarters = [NOON + each * 15 * MINUTE for each in range(1, 5)]
    assert store.moments() == (quarters if catch_up is ALL else quarters[-1:])
    assert (store.schedule.state, store.upcoming) == ("finished", None)


@pytest.mark.requirement("C4")
def test_an_end_before_the_first_occurrence_makes_nothing() -> None:
    store = FakeStore(QUARTERS, ends_at=NOON + 14 * MINUTE)
    assert (store.moments(), store.schedule.state) == ([], "finished")


@pytest.mark.requirement("C4")
def test_there_are_no_more_runs_than_max_runs() -> None:
    store = FakeStore(QUARTERS, max_runs=3)
    for minute in range(200):
        store.plan(NOON + minute * MINUTE)
    assert store.moments() == [NOON + each * 15 * MINUTE for each in (1, 2, 3)]
    assert (store.counts()[0], store.schedule.state) == (3, "finished")


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(
    ("catch_up", "minutes", "merged"),
    [(ALL, [15, 30, 45], 93), (LATEST, [1440, 1455], 95), (SKIP, [1440, 1455], 0)],
)
def test_a_catch_up_makes_no_more_runs_than_max_runs(
    catch_up: CatchUp, minutes: list[int], merged: int
) -> None:
    store = FakeStore(QUARTERS, max_runs=3, catch_up=catch_up)
    store.plan(NOON + DAY)
    assert store.moments() == [NOON + each * MINUTE for each in minutes]
    assert store.counts()[:2] == (len(minutes), merged)


@pytest.mark.requirement("C4")
def test_a_skipped_occurrence_does_not_count_as_a_run() -> None:
    store = FakeStore(QUARTERS, max_runs=2, catch_up=SKIP)
    for day in range(1, 5):
        store.plan(NOON + day * DAY + 5 * MINUTE)
    assert store.moments() == [NOON + 4 * DAY + 15 * MINUTE]
    store.plan(NOON + 4 * DAY + 15 * MINUTE)
    assert len(store.moments()) == store.counts()[0] == 2


@pytest.mark.requirement("C4")
def test_jitter_delays_and_the_scheduled_moment_stays_the_identity() -> None:
    store = FakeStore(QUARTERS, jitter=600.0, catch_up=ALL)
    store.plan(NOON + DAY)
    entries = list(store.entries.values())
    spread = [(each.due_at - each.scheduled_for).total_seconds() for each in entries]
    assert all(0 <= each <= 600 for each in spread)
    assert len(set(spread)) == len(spread) == 97
    assert max(spread) > 540
    assert min(spread) < 60
    assert [each.scheduled_for for each in entries] == store.moments()
    assert entries[0].occurrence == "2026-11-15T12:15:00Z"
    occurrence = Occurrence(entries[9].occurrence, entries[9].scheduled_for)
    assert due_at("daily", 600.0, occurrence) == entries[9].due_at
    assert due_at("other", 600.0, occurrence) != entries[9].due_at
    assert due_at("daily", 0.0, occurrence) == entries[9].scheduled_for


@pytest.mark.requirement("C4")
def test_an_occurrence_delayed_by_jitter_is_not_missed() -> None:
    store = FakeStore(cron("*/15 * * * *"), jitter=7200.0)
    held_back = store.entries["n1"].due_at
    assert held_back > NOON + 35 * MINUTE
    store.plan(NOON + 31 * MINUTE)
    assert store.entries["n1"].due_at == held_back
    assert store.moments() == [NOON + each * MINUTE for each in (15, 30, 45)]


@pytest.mark.requirement("C3")
def test_a_month_of_seconds_is_caught_up_in_bounded_time_and_memory() -> None:
    store = FakeStore(cron("* * * * * *"))
    tracemalloc.start()
    began = time.perf_counter()
    store.plan(NOON + 30 * DAY)
    seconds, (_, peak) = time.perf_counter() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert store.entries["n1"].merged == 30 * 86_400 - 1
    assert store.moments() == [NOON + 30 * DAY, NOON + 30 * DAY + SECOND]
    assert seconds < 1
    assert peak < 50_000_000


@pytest.mark.requirement("C1")
def test_a_clock_that_stepped_back_makes_nothing_twice() -> None:
    store = FakeStore(QUARTERS, catch_up=ALL)
    store.plan(NOON + HOUR)
    made = store.moments()
    for minute in range(-30, 60):
        assert store.plan(NOON + minute * MINUTE) is None
    store.plan(NOON + 75 * MINUTE)
    assert store.moments() == [*made, NOON + 90 * MINUTE]


class Case(NamedTuple):
    """A rule with its options, when the planner runs, and whether a worker claimed before it."""

    rule: Rule
    timing: dict[str, Any]
    looks: list[tuple[timedelta, bool]]


ZONES = ["UTC", "Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
CRONS = ["*/15 * * * *", "0 * * * *", "30 2 * * *", "0 9 * * MON", "*/7 1-5 * * *", "0 0 1 * *"]
rules = st.one_of(
    st.builds(cron, st.sampled_from(CRONS), st.sampled_from(ZONES)),
    st.builds(every, st.sampled_from(["90s", "15m", "7h", "36h"]), st.just("2026-11-01T00:00:30Z")),
    st.builds(
        yearly, st.integers(1, 12), st.integers(1, 28), st.just("02:30"), st.sampled_from(ZONES)
    ),
    st.builds(at, st.just("2026-11-20T09:00"), st.sampled_from(ZONES)),
)
spans = st.one_of(
    st.integers(0, 200).map(lambda each: each * SECOND),
    st.integers(0, 300).map(lambda each: each * MINUTE),
    st.integers(0, 10).map(lambda each: each * DAY),
)


@st.composite
def timings(draw: st.DrawFn) -> dict[str, Any]:
    found = {
        "catch_up": draw(st.sampled_from(CatchUp)),
        "window": draw(st.sampled_from([None, None, 0.0, 60.0, 1800.0, 86_400.0])),
        "cap": draw(st.sampled_from([1, 2, 7, 1000])),
        "jitter": draw(st.sampled_from([0.0, 0.0, 0.0, 40.0, 4000.0])),
        "starts_at": draw(st.none() | spans.map(lambda each: NOON + each)),
        "max_runs": draw(st.sampled_from([None, None, None, 1, 2, 9])),
    }
    begin = found["starts_at"] or NOON
    found["ends_at"] = draw(st.none() | spans.map(lambda each: begin + each))
    return found


looks = st.lists(st.tuples(spans, st.booleans()), min_size=1, max_size=6)
cases = st.builds(Case, rules, timings(), looks)


class Naive:
    """Decides every occurrence one by one, as the documentation describes it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.timing = FakeStore(case.rule, **case.timing).schedule.timing
        self.decided_until = NOON
        self.kept: dict[str, int] = {}
        """The occurrences that were made, and how many others are merged into each."""
        self.taken: set[str] = set()
        self.merged = self.skipped = 0
        self.pending_one: Occurrence | None = None
        self.is_over = False
        self._put_next()

    def between(self, after: datetime, until: datetime) -> list[Occurrence]:
        walk = self.case.rule.occurrences(after)
        found = takewhile(lambda each: each.at <= until, walk)
        return [each for each in found if self.is_inside(each)]

    def is_inside(self, each: Occurrence) -> bool:
        starts_at, ends_at = self.timing.starts_at, self.timing.ends_at
        return (starts_at or each.at) <= each.at <= (ends_at or each.at)

    def has_room(self) -> bool:
        return self.timing.max_runs is None or len(self.kept) < self.timing.max_runs

    def _put_next(self) -> None:
        far = self.timing.ends_at or self.decided_until + 9 * 366 * DAY
        walk = self.case.rule.occurrences(self.decided_until)
        ahead = takewhile(lambda each: each.at <= far, walk)
        found = next((each for each in ahead if self.is_inside(each)), None)
        self.pending_one = found if self.has_room() else None
        if self.pending_one is not None:
            self.kept[self.pending_one.identity] = 0
        self.is_over = self.pending_one is None

    def claim(self, now: datetime) -> None:
        if self.pending_one is not None and self.due(self.pending_one) <= now:
            self.taken.add(self.pending_one.identity)

    def due(self, each: Occurrence) -> datetime:
        return due_at("daily", self.timing.jitter, each)

    def plan(self, now: datetime) -> None:
        if self.pending_one is None or self.pending_one.at > now:
            return
        first = self.pending_one
        is_ours = first.identity not in self.taken and self.due(first) <= now
        pool = [first] if is_ours else []
        pool += self.between(max(first.at, self.decided_until), now)
        self.decided_until = now
        self._decide(pool, first if is_ours else None, now)
        self._put_next()

    def _decide(self, pool: list[Occurrence], ours: Occurrence | None, now: datetime) -> None:
        timing = self.timing
        always = not isinstance(timing.rule, Cron | Every)
        if ours is not None:
            del self.kept[ours.identity]
        fresh = [each for each in pool if always or self.is_fresh(each, ours, now)]
        self.skipped += len(pool) - len(fresh)
        if not fresh:
            return
        if always or timing.catch_up is ALL:
            keep = fresh if always else fresh[: timing.cap]
        elif timing.catch_up is LATEST:
            keep = fresh[-1:]
        else:
            keep = fresh[: timing.cap]
        # The pending one is counted as a run already.
        room = len(keep) if timing.max_runs is None else timing.max_runs - len(self.kept)
        keep = keep[: max(room, 0)]
        for each in keep:
            self.kept[each.identity] = 0
        if timing.catch_up is not SKIP or always:
            rest = len(fresh) - len(keep)
            self.merged += rest
            if keep and rest:
                self.kept[keep[-1].identity] = rest

    def is_fresh(self, each: Occurrence, ours: Occurrence | None, now: datetime) -> bool:
        window = self.timing.window
        is_inside = window is None or each.at >= now - timedelta(seconds=window)
        if each is ours:
            # The pending one is missed only when it is late.
            is_late = self.due(each) < now - STILL_FRESH
            return not is_late or (is_inside and self.timing.catch_up is not SKIP)
        return is_inside and (self.timing.catch_up is not SKIP or each.at >= now - STILL_FRESH)


NARROW = {"catch_up": SKIP, "window": 10.0, "cap": 7}


@pytest.mark.requirement("C1", "C3", "C4")
@settings(max_examples=300)
@given(cases)
@example(Case(every("90s", "2026-11-01T00:00:30Z"), NARROW, [(31 * SECOND, False)]))
@example(Case(every("20s", "2026-11-01T00:00:30Z"), NARROW, [(55 * SECOND, False)]))
@example(Case(every("20s", "2026-11-01T00:00:30Z"), NARROW, [(95 * SECOND, True)]))
def test_made_merged_and_skipped_occurrences_are_those_of_the_naive_model(case: Case) -> None:
    store, naive, now = FakeStore(case.rule, **case.timing), Naive(case), NOON
    for span, is_claimed in case.looks:
        now += span
        if is_claimed:
            store.claim(now)
            naive.claim(now)
        store.plan(now)
        naive.plan(now)
        live = [each for each in store.entries.values() if each.state != "skipped"]
        assert {each.occurrence: each.merged for each in live} == naive.kept
        assert store.counts() == (len(naive.kept), naive.merged, naive.skipped)
    event(f"{len(naive.kept)} kept")


@pytest.mark.requirement("C1", "C3")
@settings(max_examples=200)
@given(cases, st.lists(st.integers(-600, 600), min_size=6, max_size=6))
def test_no_occurrence_is_made_twice_or_forgotten_even_if_the_clock_steps_back(
    case: Case, steps: list[int]
) -> None:
    timing = case.timing | {"max_runs": None, "window": None, "jitter": 0.0}
    store, now, furthest = FakeStore(case.rule, **timing), NOON, NOON
    for (span, is_claimed), step in zip(case.looks, steps, strict=False):
        now += span + step * SECOND
        # Plan again at the same moment, and with a clock that is behind.
        for moment in (now, now, now - 8 * MINUTE):
            if is_claimed:
                store.claim(moment)
            if store.plan(moment) is not None:
                furthest = max(furthest, moment)
    timing_now = store.schedule.timing
    begin = max(NOON, (timing_now.starts_at or NOON) - INSTANT)
    until = min(furthest, timing_now.ends_at or furthest)
    if isinstance(case.rule, Cron | Every):
        wanted = case.rule.count(begin, until) if until > begin else 0
        runs, merged, skipped = store.counts()
        is_next_there = store.upcoming is not None
        assert runs - is_next_there + merged + skipped == wanted
