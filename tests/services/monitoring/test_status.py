"""Current rates: of the last sixty seconds, computed from counts by minute."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.records.stats import Point, Retries
from duly.records.status import NamespaceStatus
from duly.services.monitoring.status import top

MINUTE = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


@pytest.mark.requirement("S6")
@pytest.mark.parametrize(("seconds", "rate"), [(0, 2.0), (15, 1.6), (60, 0.1), (75, 0.1)])
def test_rates_are_of_the_last_sixty_seconds(seconds: int, rate: float) -> None:
    present = {0: 0, 15: 6, 60: 6, 75: 6}[seconds]
    minutes = [
        Point(at=MINUTE - timedelta(minutes=1), completed=120),
        Point(at=MINUTE, completed=present),
    ]
    at = MINUTE + timedelta(seconds=seconds)
    status = NamespaceStatus(at=at, store_seconds=0.0, retries=Retries(3, at, at))
    found = top(status, minutes, [])
    assert (found.completed_per_second, found.accepted_per_second, found.retries) == (rate, 0, 3)
