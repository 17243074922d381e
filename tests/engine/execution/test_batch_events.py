"""What is told of a batch: every one is counted, some stand for the others in time."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.engine.execution.batch_events import SAMPLE, Call, batch_event

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
NAMES = {1: "work", 2: "mail"}
pytestmark = pytest.mark.requirement("S3", "D11")


def settlement(
    verdict: Verdict = Verdict.COMPLETED, target: int = 1, attempt: int = 1
) -> Settlement:
    return Settlement(
        *("lane", 7, "id", verdict, attempt, NOW, NOW + timedelta(seconds=2), 5),
        target=target,
        due_at=NOW - timedelta(seconds=90),
        ready_at=NOW - timedelta(seconds=5),
    )


@pytest.mark.parametrize("many", [0, 1, 15, 16, 17, 100, 1000])
def test_of_many_a_few_stand_for_all(many: int) -> None:
    told = batch_event([settlement() for _ in range(many)], NAMES, Call(on_time=3, seconds=0.5))
    assert sum(each.weight for each in told.timed) == many
    assert len(told.timed) <= SAMPLE
    assert {(each.pickup, each.run, each.late) for each in told.timed} <= {(5.0, 2.0, 90.0)}
    assert (told.completed, told.on_time, told.seconds) == (many, 3, 0.5)
    assert told.completed_by == ({"work": many} if many else {})
    assert told.tries == ({1: many} if many else {})


def test_a_mixed_batch_is_counted_by_what_became_of_each() -> None:
    batch = [
        settlement(),
        settlement(target=2, attempt=3),
        settlement(Verdict.RETRY, attempt=2),
        settlement(Verdict.DEAD, attempt=4),
        settlement(Verdict.RELEASED),
        settlement(Verdict.EXPIRED),
        settlement(Verdict.SKIPPED),
    ]
    told = batch_event(batch, NAMES, Call(refused=1))
    counts = (told.completed, told.retried, told.dead, told.released, told.expired, told.skipped)
    assert (*counts, told.refused) == (2, 1, 1, 1, 1, 1, 1)
    assert told.completed_by == {"work": 1, "mail": 1}
    assert told.tries == {1: 1, 3: 1, 4: 1}
    assert [each.late for each in told.timed] == [90.0, None, None, None]
