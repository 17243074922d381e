"""Rollups: spans, steps and differences."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.monitoring.rollups import NOTHING, checked_span, filled, grown, less, plus
from duly.errors import InvalidInput
from duly.records.stats import Counts

NOW = datetime(2026, 5, 1, 12, 30, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def at(minute: int) -> datetime:
    return datetime(2026, 5, 1, 12, minute, tzinfo=UTC)


def test_a_span_starts_and_ends_at_whole_steps_and_has_all_of_them() -> None:
    span = checked_span(120, None, 60, NOW)
    assert (span.since, span.until) == (at(28), at(31))
    series = filled(span, {at(29): Counts(completed=7, run_seconds=0.5)})
    assert [(each.at, each.completed) for each in series.points] == [
        (at(28), 0),
        (at(29), 7),
        (at(30), 0),
    ]


@pytest.mark.parametrize(
    ("since", "until", "step", "field"),
    [
        (60, None, 30, "step"),
        (60, None, 90, "step"),
        (timedelta(days=30), None, 60, "step"),
        (NOW, NOW, 60, "since"),
        (-5, None, 60, "since"),
        (1e30, None, 60, "since"),
        (datetime(2026, 5, 1), None, 60, "since"),  # noqa: DTZ001
        (60, datetime(2026, 5, 1), 60, "until"),  # noqa: DTZ001
    ],
)
def test_an_invalid_span_is_refused(since: object, until: object, step: float, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_span(since, until, step, NOW)  # type: ignore[arg-type]
    assert refused.value.field == field


def test_tallies_add_and_subtract() -> None:
    some, more = Counts(accepted=2, run_seconds=1.5), Counts(accepted=5, dead=1, run_seconds=2.0)
    assert less(more, some) == Counts(accepted=3, dead=1, run_seconds=0.5)
    assert plus(less(more, some), some) == more
    assert not less(more, more)
    assert some


def test_the_difference_has_new_minutes_in_full_and_the_increase_of_known_ones() -> None:
    before = {at(28): Counts(completed=5), at(29): Counts(completed=10)}
    now = {
        at(27): Counts(completed=99),
        at(28): Counts(completed=5),
        at(29): Counts(completed=12),
        at(30): Counts(completed=4),
    }
    assert grown(now, before) == Counts(completed=6)
    assert grown(before, before) == NOTHING
