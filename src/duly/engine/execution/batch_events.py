"""The event that summarizes a settled batch.

It is made for every batch, so it has to be fast: each count is one quick pass, equal values are not
counted one by one, and times are reported for a sample only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.events import BatchSettled, Timed

SAMPLE = 16
"""How many attempts of a batch are reported with their times, weighted for the others."""
RAN = frozenset({Verdict.COMPLETED, Verdict.DEAD, Verdict.RETRY})

Value = TypeVar("Value")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the call besides its settlements."""

    refused: int = 0
    on_time: int = 0
    seconds: float | None = None
    namespace: str | None = None
    """The namespace of the deliveries if it is not the worker's own."""


def batch_event(batch: Sequence[Settlement], names: Mapping[int, str], call: Call) -> BatchSettled:
    """The event for a batch of settlements."""
    verdicts = _counted([each.verdict for each in batch])
    ran = completed = ended = batch
    if verdicts.get(Verdict.COMPLETED, 0) < len(batch):
        completed = [each for each in batch if each.verdict is Verdict.COMPLETED]
        ran = [each for each in batch if each.verdict in RAN]
        ended = [each for each in ran if each.verdict is not Verdict.RETRY]
    targets = _counted([each.target for each in completed])
    return BatchSettled(
        completed=len(completed),
        retried=verdicts.get(Verdict.RETRY, 0),
        dead=verdicts.get(Verdict.DEAD, 0),
        released=verdicts.get(Verdict.RELEASED, 0),
        expired=verdicts.get(Verdict.EXPIRED, 0),
        skipped=verdicts.get(Verdict.SKIPPED, 0),
        cancelled=verdicts.get(Verdict.CANCELLED, 0),
        refused=call.refused,
        on_time=call.on_time,
        seconds=call.seconds,
        namespace=call.namespace,
        timed=_sample(ran),
        completed_by={names.get(target, ""): many for target, many in targets.items()},
        tries=_counted([each.attempt for each in ended]),
    )


def _counted(values: list[Value]) -> dict[Value, int]:
    if not values:
        return {}
    first = values[0]
    # Usually all are equal; checking that takes a tenth of the time of counting.
    return {first: len(values)} if values.count(first) == len(values) else Counter(values)


def _sample(ran: Sequence[Settlement]) -> list[Timed]:
    step = -(-len(ran) // SAMPLE) or 1
    timed = []
    for place in range(0, len(ran), step):
        each, weight = ran[place], min(step, len(ran) - place)
        if (started_at := each.started_at) is not None:
            timed.append(_timed(each, started_at, weight))
    return timed


def _timed(settlement: Settlement, started_at: datetime, weight: int) -> Timed:
    is_first = settlement.attempt == 1
    return Timed(
        pickup=_seconds(settlement.ready_at, started_at),
        run=_seconds(started_at, settlement.finished_at),
        late=_seconds(settlement.due_at, started_at) if is_first else None,
        weight=weight,
    )


def _seconds(begin: datetime | None, end: datetime) -> float:
    return 0.0 if begin is None else max((end - begin).total_seconds(), 0.0)
