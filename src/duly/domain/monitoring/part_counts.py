"""Counts of the outcomes of one target or one schedule, by the minute.

Only parts with an outcome are counted: a schedule that has not run in a minute has no row for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from duly.domain.checks import checked_text
from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.endpoints.endpoint import wanted_target
from duly.domain.schedules.schedule import decode_occasion
from duly.errors import InvalidInput
from duly.records.stats import Counts


class PartKind(StrEnum):
    """What a series may be limited to."""

    TARGET = "target"
    SCHEDULE = "schedule"


class Part(NamedTuple):
    """A target or schedule in one minute; `namespace` is None for the worker's own."""

    namespace: str | None
    kind: PartKind
    name: str
    minute_at: datetime


def checked_part(target: object, schedule: object) -> tuple[PartKind, str] | None:
    """The part that a series is limited to, if any; InvalidInput for both."""
    if target is not None and schedule is not None:
        raise InvalidInput("schedule", "give it or target, not both")
    if target is not None:
        return PartKind.TARGET, wanted_target(target)
    return None if schedule is None else (PartKind.SCHEDULE, checked_text("schedule", schedule))


OUTCOMES = {
    Verdict.COMPLETED: Counts(completed=1),
    Verdict.RETRY: Counts(failed=1),
    Verdict.DEAD: Counts(failed=1, dead=1),
    Verdict.EXPIRED: Counts(cancelled=1),
    Verdict.SKIPPED: Counts(cancelled=1),
    Verdict.CANCELLED: Counts(cancelled=1),
}
"""What each verdict counts as; a released, reclaimed or deferred delivery has no outcome yet."""
FIELDS = ("completed", "failed", "dead", "cancelled")
"""The counts that parts have."""


def outcomes_of(
    settled: Sequence[Settlement], names: Mapping[int, str], foreign: Mapping[int, str]
) -> Iterator[tuple[Part, Verdict, int]]:
    """How often each target and schedule had each verdict, in the minute of the batch."""
    if not settled:
        return
    minute = settled[-1].finished_at.replace(second=0, microsecond=0)
    pairs = _counted([(each.target, each.verdict) for each in settled])
    for (target, verdict), many in pairs.items():
        name = names.get(target)
        if name is not None and verdict in OUTCOMES:
            yield Part(foreign.get(target), PartKind.TARGET, name, minute), verdict, many
    planned = [each for each in settled if each.occasion is not None]
    for (schedule, target, verdict), many in Counter(_scheduled(planned)).items():
        if verdict in OUTCOMES:
            part = Part(foreign.get(target), PartKind.SCHEDULE, schedule, minute)
            yield part, verdict, many


def _scheduled(planned: Iterable[Settlement]) -> Iterator[tuple[str, int, Verdict]]:
    for each in planned:
        if each.occasion is not None:
            yield decode_occasion(each.occasion).schedule, each.target, each.verdict


def _counted(pairs: list[tuple[int, Verdict]]) -> Mapping[tuple[int, Verdict], int]:
    # Usually all are equal; checking that takes a fraction of the time of counting.
    first = pairs[0]
    return {first: len(pairs)} if pairs.count(first) == len(pairs) else Counter(pairs)
