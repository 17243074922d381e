"""What a schedule makes next: caught up, merged, skipped, and never made twice."""

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
from tests.domain.diary import DAY, HOUR, MINUTE, NOON, SECOND, Diary

QUARTERS = cron("*/15 * * * *")
INSTANT = timedelta(microseconds=1)
ALL, LATEST, SKIP = CatchUp.ALL, CatchUp.LATEST, CatchUp.SKIP


@pytest.mark.requirement("C1")
def test_the_next_occurrence_is_on_the_books_from_the_start() -> None:
    diary = Diary(QUARTERS, NOON)
    assert diary.moments() == [NOON + 15 * MINUTE]
    assert diary.upcoming == diary.schedule.progress.next_at == NOON + 15 * MINUTE
    assert diary.counts() == (1, 0, 0)
    assert diary.plan(NOON + 14 * MINUTE) is None


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("catch_up", CatchUp)
def test_when_it_falls_due_the_one_after_it_is_made_and_no_other(catch_up: CatchUp) -> None:
    diary = Diary(QUARTERS, catch_up=catch_up)
    for turn in range(1, 20):
        plan = diary.plan(NOON + turn * 15 * MINUTE + SECOND)
        assert plan is not None
        assert (len(plan.make), plan.move, plan.drop) == (1, [], [])
        diary.claim(NOON + turn * 15 * MINUTE + SECOND)
    assert diary.moments() == [NOON + each * 15 * MINUTE for each in range(1, 21)]
    assert diary.counts() == (20, 0, 0)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("claimed", [False, True])
def test_all_makes_each_of_a_days_missed_quarters_oldest_first(claimed: bool) -> None:
    diary = Diary(QUARTERS, catch_up=ALL)
    if claimed:
        diary.claim(NOON + HOUR)
    plan = diary.plan(NOON + DAY)
    assert plan is not None
    assert diary.moments() == [NOON + each * 15 * MINUTE for each in range(1, 98)]
    assert [each.due_at for each in plan.make] == diary.moments()[1:]
    assert diary.counts() == (97, 0, 0)
    assert diary.claim(NOON + DAY)[-1] == "2026-11-16T12:00:00Z"


@pytest.mark.requirement("C3")
def test_all_stops_at_the_cap_and_merges_the_rest_into_the_last() -> None:
    diary = Diary(QUARTERS, catch_up=ALL, cap=10)
    diary.plan(NOON + DAY)
    late = [each for each in diary.entries.values() if each.due_at <= NOON + DAY]
    assert [each.merged for each in late] == [0] * 9 + [86]
    assert [each.scheduled_for for each in late] == diary.moments()[:10]
    assert diary.counts() == (11, 86, 0)
    assert diary.upcoming == NOON + DAY + 15 * MINUTE


@pytest.mark.requirement("C3")
def test_a_cap_of_one_merges_all_into_the_one_on_the_books() -> None:
    diary = Diary(QUARTERS, catch_up=ALL, cap=1)
    plan = diary.plan(NOON + DAY)
    assert plan is not None
    assert len(plan.move) == 1
    assert [each.merged for each in diary.entries.values()] == [95, 0]
    assert diary.moments() == [NOON + 15 * MINUTE, NOON + DAY + 15 * MINUTE]
    assert diary.counts() == (2, 95, 0)


@pytest.mark.requirement("C3")
def test_one_under_way_takes_no_room_of_the_cap() -> None:
    diary = Diary(QUARTERS, catch_up=ALL, cap=1)
    diary.claim(NOON + 16 * MINUTE)
    diary.plan(NOON + DAY)
    assert [each.merged for each in diary.entries.values()] == [0, 94, 0]
    assert diary.counts() == (3, 94, 0)


@pytest.mark.requirement("C3")
def test_latest_makes_the_one_on_the_books_the_latest_of_all() -> None:
    diary = Diary(QUARTERS)
    plan = diary.plan(NOON + DAY + SECOND)
    assert plan is not None
    assert (len(plan.move), plan.drop, plan.merged) == (1, [], 95)
    assert diary.moments() == [NOON + DAY, NOON + DAY + 15 * MINUTE]
    assert [each.merged for each in diary.entries.values()] == [95, 0]
    assert diary.claim(NOON + DAY + SECOND) == ["2026-11-16T12:00:00Z"]
    assert diary.counts() == (2, 95, 0)


@pytest.mark.requirement("C3")
def test_latest_beside_one_under_way_leaves_it_alone() -> None:
    diary = Diary(QUARTERS)
    assert diary.claim(NOON + 16 * MINUTE) == ["2026-11-15T12:15:00Z"]
    plan = diary.plan(NOON + DAY + SECOND)
    assert plan is not None
    assert plan.move == []
    assert [each.merged for each in diary.entries.values()] == [0, 94, 0]
    assert diary.counts() == (3, 94, 0)


@pytest.mark.requirement("C3")
def test_latest_is_the_default_of_cron_and_every() -> None:
    for rule in (QUARTERS, every("15m")):
        assert Diary(rule).schedule.timing.catch_up is LATEST


@pytest.mark.requirement("C3")
def test_skip_makes_only_what_is_within_a_minute_of_its_time() -> None:
    diary = Diary(QUARTERS, catch_up=SKIP)
    plan = diary.plan(NOON + DAY + SECOND)
    assert plan is not None
    assert plan.drop == [("n1", Drop.SKIPPED)]
    assert diary.moments() == [NOON + DAY, NOON + DAY + 15 * MINUTE]
    assert diary.moments("skipped") == [NOON + 15 * MINUTE]
    assert diary.counts() == (2, 0, 95)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(("late", "is_run"), [(STILL_FRESH, True), (STILL_FRESH + INSTANT, False)])
@pytest.mark.parametrize("is_on_books", [True, False])
def test_a_minute_late_is_still_fresh_and_no_more(
    late: timedelta, is_run: bool, is_on_books: bool
) -> None:
    first = NOON + 15 * MINUTE
    due = first if is_on_books else first + HOUR
    diary = Diary(QUARTERS, catch_up=SKIP)
    diary.plan(due + late)
    assert (due in diary.moments()) is is_run
    assert sum(diary.counts()[1:]) == (0 if is_on_books else 4) + (not is_run)


@pytest.mark.requirement("C3")
def test_skip_leaves_alone_what_is_under_way_however_late() -> None:
    diary = Diary(QUARTERS, catch_up=SKIP)
    diary.claim(NOON + 15 * MINUTE)
    plan = diary.plan(NOON + HOUR)
    assert plan is not None
    assert plan.drop == []
    assert diary.moments() == [NOON + each * MINUTE for each in (15, 60, 75)]
    assert diary.counts() == (3, 0, 2)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("catch_up", [ALL, LATEST])
@pytest.mark.parametrize(("window", "inside"), [(3600.0, 5), (3599.999999, 4), (0.0, 1)])
def test_what_is_older_than_the_window_is_skipped_and_counted(
    catch_up: CatchUp, window: float, inside: int
) -> None:
    diary = Diary(QUARTERS, catch_up=catch_up, window=window)
    diary.plan(NOON + DAY)
    made = 1 if catch_up is LATEST else inside
    late = [each for each in diary.moments() if each <= NOON + DAY]
    assert late == [NOON + DAY - each * 15 * MINUTE for each in range(made)][::-1]
    assert diary.counts() == (made + 1, inside - made, 96 - inside)


@pytest.mark.requirement("C3")
def test_a_window_without_anything_in_it_makes_nothing_but_the_next() -> None:
    for catch_up in (ALL, LATEST):
        diary = Diary(cron("0 0 * * *"), catch_up=catch_up, window=60.0)
        plan = diary.plan(NOON + DAY)
        assert plan is not None
        assert plan.drop == [("n1", Drop.SKIPPED)]
        assert diary.moments() == [NOON + DAY + 12 * HOUR]
        assert diary.counts() == (1, 0, 1)


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("timing", [
    {"catch_up": SKIP}, {"catch_up": ALL, "cap": 1}, {"window": 1.0}, {"catch_up": LATEST},
])  # fmt: skip
def test_yearly_and_at_are_made_up_however_late_and_whatever_else_is_said(
    timing: dict[str, Any],
) -> None:
    birthday = Diary(yearly(12, 1, "09:00", tz="Asia/Tokyo"), **timing)
    birthday.plan(NOON + 3 * 365 * DAY)
    assert [each.year for each in birthday.moments("pending")] == [2026, 2027, 2028, 2029]
    assert birthday.counts() == (4, 0, 0)
    once = Diary(at("2026-12-01T09:00", tz="Europe/Oslo"), **timing)
    once.plan(NOON + 3 * 365 * DAY)
    assert once.moments("pending") == [datetime(2026, 12, 1, 8, tzinfo=UTC)]
    assert (once.counts(), once.schedule.state) == ((1, 0, 0), "finished")


@pytest.mark.requirement("C3")
def test_an_at_in_the_past_is_due_at_once_and_a_cron_makes_nothing_of_its_past() -> None:
    late = Diary(at("2026-11-01T09:00Z"))
    assert late.claim(NOON) == ["2026-11-01T09:00:00Z"]
    assert late.schedule.state == "finished"
    assert Diary(QUARTERS).claim(NOON) == []
    assert Diary(yearly(11, 15, "11:59")).upcoming == datetime(2027, 11, 15, 11, 59, tzinfo=UTC)


@pytest.mark.requirement("C4")
def test_start_and_end_are_both_included() -> None:
    begin, end = NOON + HOUR, NOON + 2 * HOUR
    diary = Diary(QUARTERS, starts_at=begin, ends_at=end, catch_up=ALL)
    assert diary.moments() == [begin]
    for minute in range(300):
        diary.plan(NOON + minute * MINUTE)
    assert diary.moments() == [begin + each * 15 * MINUTE for each in range(5)]
    assert diary.schedule.state == "finished"


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("catch_up", [ALL, LATEST])
def test_what_was_missed_before_the_end_is_made_up_after_it(catch_up: CatchUp) -> None:
    diary = Diary(QUARTERS, ends_at=NOON + HOUR, catch_up=catch_up)
    diary.plan(NOON + DAY)
    quarters = [NOON + each * 15 * MINUTE for each in range(1, 5)]
    assert diary.moments() == (quarters if catch_up is ALL else quarters[-1:])
    assert (diary.schedule.state, diary.upcoming) == ("finished", None)


@pytest.mark.requirement("C4")
def test_an_end_before_the_first_occurrence_makes_nothing() -> None:
    diary = Diary(QUARTERS, ends_at=NOON + 14 * MINUTE)
    assert (diary.moments(), diary.schedule.state) == ([], "finished")


@pytest.mark.requirement("C4")
def test_no_more_runs_than_were_allowed() -> None:
    diary = Diary(QUARTERS, max_runs=3)
    for minute in range(200):
        diary.plan(NOON + minute * MINUTE)
    assert diary.moments() == [NOON + each * 15 * MINUTE for each in (1, 2, 3)]
    assert (diary.counts()[0], diary.schedule.state) == (3, "finished")


@pytest.mark.requirement("C4")
@pytest.mark.parametrize(
    ("catch_up", "minutes", "merged"),
    [(ALL, [15, 30, 45], 93), (LATEST, [1440, 1455], 95), (SKIP, [1440, 1455], 0)],
)
def test_catching_up_makes_no_more_runs_than_were_allowed(
    catch_up: CatchUp, minutes: list[int], merged: int
) -> None:
    diary = Diary(QUARTERS, max_runs=3, catch_up=catch_up)
    diary.plan(NOON + DAY)
    assert diary.moments() == [NOON + each * MINUTE for each in minutes]
    assert diary.counts()[:2] == (len(minutes), merged)


@pytest.mark.requirement("C4")
def test_a_skipped_occurrence_is_no_run() -> None:
    diary = Diary(QUARTERS, max_runs=2, catch_up=SKIP)
    for day in range(1, 5):
        diary.plan(NOON + day * DAY + 5 * MINUTE)
    assert diary.moments() == [NOON + 4 * DAY + 15 * MINUTE]
    diary.plan(NOON + 4 * DAY + 15 * MINUTE)
    assert len(diary.moments()) == diary.counts()[0] == 2


@pytest.mark.requirement("C4")
def test_jitter_spreads_and_the_nominal_moment_stays_the_identity() -> None:
    diary = Diary(QUARTERS, jitter=600.0, catch_up=ALL)
    diary.plan(NOON + DAY)
    entries = list(diary.entries.values())
    spread = [(each.due_at - each.scheduled_for).total_seconds() for each in entries]
    assert all(0 <= each <= 600 for each in spread)
    assert len(set(spread)) == len(spread) == 97
    assert max(spread) > 540
    assert min(spread) < 60
    assert [each.scheduled_for for each in entries] == diary.moments()
    assert entries[0].occurrence == "2026-11-15T12:15:00Z"
    again = Occurrence(entries[9].occurrence, entries[9].scheduled_for)
    assert due_at("daily", 600.0, again) == entries[9].due_at
    assert due_at("other", 600.0, again) != entries[9].due_at
    assert due_at("daily", 0.0, again) == entries[9].scheduled_for


@pytest.mark.requirement("C4")
def test_what_jitter_still_holds_back_was_not_missed() -> None:
    diary = Diary(cron("*/15 * * * *"), jitter=7200.0)
    held_back = diary.entries["n1"].due_at
    assert held_back > NOON + 35 * MINUTE
    diary.plan(NOON + 31 * MINUTE)
    assert diary.entries["n1"].due_at == held_back
    assert diary.moments() == [NOON + each * MINUTE for each in (15, 30, 45)]


@pytest.mark.requirement("C3")
def test_a_month_of_seconds_is_caught_up_in_bounded_time_and_memory() -> None:
    diary = Diary(cron("* * * * * *"))
    tracemalloc.start()
    began = time.perf_counter()
    diary.plan(NOON + 30 * DAY)
    seconds, (_, peak) = time.perf_counter() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert diary.entries["n1"].merged == 30 * 86_400 - 1
    assert diary.moments() == [NOON + 30 * DAY, NOON + 30 * DAY + SECOND]
    assert seconds < 1
    assert peak < 50_000_000


@pytest.mark.requirement("C1")
def test_a_clock_that_stepped_back_makes_nothing_again() -> None:
    diary = Diary(QUARTERS, catch_up=ALL)
    diary.plan(NOON + HOUR)
    made = diary.moments()
    for minute in range(-30, 60):
        assert diary.plan(NOON + minute * MINUTE) is None
    diary.plan(NOON + 75 * MINUTE)
    assert diary.moments() == [*made, NOON + 90 * MINUTE]


class Case(NamedTuple):
    """A rule with its options, and when a planner looks, and whether a worker came before it."""

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
    """Every occurrence looked at one by one, as the rules are written down for people."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.timing = Diary(case.rule, **case.timing).schedule.timing
        self.decided_until = NOON
        self.kept: dict[str, int] = {}
        """Which were made, and for how many others each stands."""
        self.taken: set[str] = set()
        self.merged = self.skipped = 0
        self.on_books: Occurrence | None = None
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
        self.on_books = found if self.has_room() else None
        if self.on_books is not None:
            self.kept[self.on_books.identity] = 0
        self.is_over = self.on_books is None

    def claim(self, now: datetime) -> None:
        if self.on_books is not None and self.due(self.on_books) <= now:
            self.taken.add(self.on_books.identity)

    def due(self, each: Occurrence) -> datetime:
        return due_at("daily", self.timing.jitter, each)

    def plan(self, now: datetime) -> None:
        if self.on_books is None or self.on_books.at > now:
            return
        first = self.on_books
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
        # One that is on the books already needs no room among the runs.
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
            # On the books already, it is missed only when it is late.
            is_late = self.due(each) < now - STILL_FRESH
            return not is_late or (is_inside and self.timing.catch_up is not SKIP)
        return is_inside and (self.timing.catch_up is not SKIP or each.at >= now - STILL_FRESH)


NARROW = {"catch_up": SKIP, "window": 10.0, "cap": 7}


@pytest.mark.requirement("C1", "C3", "C4")
@settings(max_examples=600)
@given(cases)
@example(Case(every("90s", "2026-11-01T00:00:30Z"), NARROW, [(31 * SECOND, False)]))
@example(Case(every("20s", "2026-11-01T00:00:30Z"), NARROW, [(55 * SECOND, False)]))
@example(Case(every("20s", "2026-11-01T00:00:30Z"), NARROW, [(95 * SECOND, True)]))
def test_what_is_made_merged_and_skipped_is_what_counting_by_hand_says(case: Case) -> None:
    diary, naive, now = Diary(case.rule, **case.timing), Naive(case), NOON
    for span, is_claimed in case.looks:
        now += span
        if is_claimed:
            diary.claim(now)
            naive.claim(now)
        diary.plan(now)
        naive.plan(now)
        live = [each for each in diary.entries.values() if each.state != "skipped"]
        assert {each.occurrence: each.merged for each in live} == naive.kept
        assert diary.counts() == (len(naive.kept), naive.merged, naive.skipped)
    event(f"{len(naive.kept)} kept")


@pytest.mark.requirement("C1", "C3")
@settings(max_examples=400)
@given(cases, st.lists(st.integers(-600, 600), min_size=6, max_size=6))
def test_no_occurrence_is_ever_made_twice_or_forgotten_even_if_the_clock_steps_back(
    case: Case, steps: list[int]
) -> None:
    timing = case.timing | {"max_runs": None, "window": None, "jitter": 0.0}
    diary, now, furthest = Diary(case.rule, **timing), NOON, NOON
    for (span, is_claimed), step in zip(case.looks, steps, strict=False):
        now += span + step * SECOND
        # A second look at the same moment, and one by a clock that is behind.
        for moment in (now, now, now - 8 * MINUTE):
            if is_claimed:
                diary.claim(moment)
            if diary.plan(moment) is not None:
                furthest = max(furthest, moment)
    timing_now = diary.schedule.timing
    begin = max(NOON, (timing_now.starts_at or NOON) - INSTANT)
    until = min(furthest, timing_now.ends_at or furthest)
    if isinstance(case.rule, Cron | Every):
        wanted = case.rule.count(begin, until) if until > begin else 0
        runs, merged, skipped = diary.counts()
        is_next_there = diary.upcoming is not None
        assert runs - is_next_there + merged + skipped == wanted
