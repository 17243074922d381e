"""What there is to tell of a batch that was settled, in as little time as can be.

It is done for every batch: each figure is one pass that Python makes quickly, a batch in which all
are alike is not counted one by one, and of many attempts only some are told with their times.
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
"""How many attempts of a batch are told with their times, each for as many as it stands for."""
RAN = frozenset({Verdict.COMPLETED, Verdict.DEAD, Verdict.RETRY})

Value = TypeVar("Value")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the call beside what it wrote."""

    refused: int = 0
    on_time: int = 0
    seconds: float | None = None
    namespace: str | None = None
    """Whose deliveries they are, if not the worker's own namespace's."""


def told_of(written: Sequence[Settlement], names: Mapping[int, str], call: Call) -> BatchSettled:
    """The batch as an event."""
    verdicts = _counted([each.verdict for each in written])
    ran = completed = ended = written
    if verdicts.get(Verdict.COMPLETED, 0) < len(written):
        completed = [each for each in written if each.verdict is Verdict.COMPLETED]
        ran = [each for each in written if each.verdict in RAN]
        ended = [each for each in ran if each.verdict is not Verdict.RETRY]
    targets = _counted([each.target for each in completed])
    return BatchSettled(
        completed=len(completed),
        retried=verdicts.get(Verdict.RETRY, 0),
        dead=verdicts.get(Verdict.DEAD, 0),
        released=verdicts.get(Verdict.RELEASED, 0),
        expired=verdicts.get(Verdict.EXPIRED, 0),
        skipped=verdicts.get(Verdict.SKIPPED, 0),
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
    # Mostly all are the same, and to see that takes a tenth of the time that counting takes.
    return {first: len(values)} if values.count(first) == len(values) else Counter(values)


def _sample(ran: Sequence[Settlement]) -> list[Timed]:
    step = -(-len(ran) // SAMPLE) or 1
    timed = []
    for place in range(0, len(ran), step):
        each, weight = ran[place], min(step, len(ran) - place)
        if each.started_at is not None:
            timed.append(_timed(each, each.started_at, weight))
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
