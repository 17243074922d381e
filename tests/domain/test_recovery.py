"""How many dead letters may be retried at a moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.recovery import pace

pytestmark = pytest.mark.requirement("L1")
NOW = datetime(2026, 8, 1, 7, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("paced_at", "rate", "allowed"),
    [
        (None, 10.0, 10),
        (NOW - 60 * SECOND, 10.0, 10),
        (NOW - 0.5 * SECOND, 10.0, 5),
        (NOW, 10.0, 0),
        (NOW + 0.5 * SECOND, 10.0, 0),
        (NOW - 99 * SECOND, 0.01, 0),
        (NOW - 100 * SECOND, 0.01, 1),
        (None, 1000.0, 200),
    ],
)
def test_what_was_not_used_in_the_last_second_is_allowed(
    paced_at: datetime | None, rate: float, allowed: int
) -> None:
    assert pace(paced_at, NOW, rate, 200).allowed == allowed


@pytest.mark.parametrize(("rate", "allowed"), [(10.0, 10), (0.01, 1)])
def test_a_clock_that_was_put_back_stops_nothing(rate: float, allowed: int) -> None:
    found = pace(NOW + timedelta(days=1), NOW, rate, 200)
    assert found.allowed == allowed
    assert found.after(allowed, rate) == NOW
