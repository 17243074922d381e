"""What attempts say of their delivery."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.records.attempt import Attempt, result_of

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.requirement("P3")
def test_the_result_is_that_of_the_completed_attempt_wherever_it_stands() -> None:
    completed = attempt("completed", NOON, 47)
    reclaimed = attempt("reclaimed", NOON + timedelta(seconds=2))
    assert result_of([completed, reclaimed]) == result_of([completed]) == 47
    assert result_of([reclaimed]) is None
    assert result_of([]) is None


def attempt(outcome: str, finished_at: datetime, result: object = None) -> Attempt:
    return Attempt(
        attempt=1,
        outcome=outcome,
        worker=1,
        started_at=NOON,
        finished_at=finished_at,
        result=result,
    )
