"""The event of a batch: every delivery is counted, and a sample is timed."""

from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.moments import microseconds
from duly.engine.execution.batch_events import SAMPLE, Call, batch_event

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
AT = microseconds(NOW)
NAMES = {1: "work", 2: "mail"}
pytestmark = pytest.mark.requirement("S3", "D11")


def settlement(
    verdict: Verdict = Verdict.COMPLETED, target: int = 1, attempt: int = 1
) -> Settlement:
    return Settlement(
        *("lane", 7, "id", verdict, attempt, AT, AT + 2_000_000, 5),
        target=target,
        due_at=NOW - timedelta(seconds=90),
        ready_at=NOW - timedelta(seconds=5),
    )


@pytest.mark.parametrize("many", [0, 1, 15, 16, 17, 100, 1000])
def test_a_sample_with_weights_is_timed_for_all(many: int) -> None:
    event = batch_event([settlement() for _ in range(many)], NAMES, Call(on_time=3, seconds=0.5))
    assert sum(each.weight for each in event.timed) == many
    assert len(event.timed) <= SAMPLE
    assert {(each.pickup, each.run, each.late) for each in event.timed} <= {(5.0, 2.0, 90.0)}
    assert (event.completed, event.on_time, event.seconds) == (many, 3, 0.5)
    assert event.completed_by == ({"work": many} if many else {})
    assert event.tries == ({1: many} if many else {})


def test_a_mixed_batch_is_counted_by_verdict() -> None:
    batch = [
        settlement(),
        settlement(target=2, attempt=3),
        settlement(Verdict.RETRY, attempt=2),
        settlement(Verdict.DEAD, attempt=4),
        settlement(Verdict.RELEASED),
        settlement(Verdict.EXPIRED),
        settlement(Verdict.SKIPPED),
    ]
    event = batch_event(batch, NAMES, Call(refused=1))
    counts = (
        event.completed,
        event.retried,
        event.dead,
        event.released,
        event.expired,
        event.skipped,
    )
    assert (*counts, event.refused) == (2, 1, 1, 1, 1, 1, 1)
    assert event.completed_by == {"work": 1, "mail": 1}
    assert event.tries == {1: 1, 3: 1, 4: 1}
    assert [each.late for each in event.timed] == [90.0, None, None, None]
