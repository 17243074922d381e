"""Outages from the times of attempts and waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.monitoring.outages import Work, number_of

pytestmark = pytest.mark.requirement("L7")
HORIZON = datetime(2026, 8, 1, 7, 30, 30, tzinfo=UTC)
NOW = HORIZON + timedelta(hours=6)
LEAST = timedelta(minutes=5)


def at(seconds: int) -> datetime:
    return HORIZON + timedelta(seconds=seconds)


def ran(work: Work, since: int, until: int | None = None) -> None:
    work.ran(number_of(at(since)), at(since), at(since if until is None else until))


def waited(work: Work, ready: int, started: int) -> None:
    work.waited(number_of(at(started)), number_of(at(ready)), at(ready))


def spans(work: Work, *, claimable: bool = False) -> list[tuple[datetime, datetime | None]]:
    found = work.stops(HORIZON, NOW, LEAST, claimable=claimable)
    return [(each.began_at, each.ended_at) for each in found]


@given(st.sets(st.integers(1, 20_000), min_size=2, max_size=40), st.data())
def test_a_wait_makes_an_outage_of_the_idle_time_before_its_end(
    starts: set[int], data: st.DataObject
) -> None:
    """An attempt at each moment; one of them ends a wait that began at any moment before."""
    work, ordered = Work(), sorted(starts)
    for each in ordered:
        ran(work, each)
    started = data.draw(st.sampled_from(ordered))
    ready = data.draw(st.integers(0, started))
    least = LEAST.total_seconds()
    if started - ready >= least:  # others are not read from the ledger
        waited(work, ready, started)
    before, ended = last_idle([0, *ordered], started)
    began = max(before, ready)
    is_outage = ended - began >= least and ready >= before - least
    assert spans(work) == ([(at(began), at(ended))] if is_outage else [])


def last_idle(starts: list[int], started: int) -> tuple[int, int]:
    """The last idle time before the work in which an attempt started."""
    pairs = [each for each in pairwise(starts) if each[1] <= started]
    idle = [each for each in pairs if each[1] - each[0] >= LEAST.total_seconds()]
    return idle[-1] if idle else (0, 0)


def test_an_attempt_that_runs_is_no_idle_time() -> None:
    work = Work()
    ran(work, 0, 3000)
    ran(work, 3100)
    waited(work, 100, 3100)
    assert spans(work) == []


def test_a_wait_that_outlasts_the_work_after_it_has_another_cause() -> None:
    work = Work()
    for each in (0, 3600, 7200):
        ran(work, each)
    waited(work, 100, 7200)
    assert spans(work) == []


def test_a_minute_that_was_counted_is_work_unless_the_ledger_explains_it() -> None:
    work = Work()
    ran(work, 0)
    ran(work, 3600)
    waited(work, 60, 3600)
    work.counted([datetime(2026, 8, 1, 7, 31, tzinfo=UTC)])  # written half a minute later
    assert spans(work) == [(at(60), at(3600))]
    work.counted([datetime(2026, 8, 1, 8, 30, tzinfo=UTC), datetime(2026, 8, 1, 8, 31, tzinfo=UTC)])
    assert spans(work) == [(at(60), at(3600))]
    work.counted([datetime(2026, 8, 1, 8, 0, tzinfo=UTC)])
    assert spans(work) == []


def test_what_nobody_could_claim_is_no_outage_that_goes_on() -> None:
    work = Work()
    ran(work, 0)
    waited(work, 60, int((NOW - HORIZON).total_seconds()))
    assert spans(work) == []
    assert spans(work, claimable=True) == [(at(60), None)]
