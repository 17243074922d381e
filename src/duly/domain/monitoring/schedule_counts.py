"""Counts of each schedule's delivery outcomes, by the minute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.schedules.schedule import decode_occasion

FIELDS = {
    Verdict.COMPLETED: "completed",
    Verdict.RETRY: "retried",
    Verdict.DEAD: "dead",
    Verdict.EXPIRED: "expired",
    Verdict.SKIPPED: "skipped",
    Verdict.CANCELLED: "cancelled",
}
"""The counted verdicts; a released, reclaimed or deferred delivery has no outcome yet."""


class Count(NamedTuple):
    """One count of a schedule in one minute."""

    schedule: str
    minute: datetime
    field: str
    namespace: str | None = None
    """The schedule's namespace, if it is not the worker's own."""


def counts_of(settled: Iterable[Settlement], foreign: Mapping[int, str]) -> Iterator[Count]:
    """The counts that each settlement increases by one, if it belongs to a schedule.

    `foreign` maps targets to their namespaces if these are not the worker's own.
    """
    for each in settled:
        field = FIELDS.get(each.verdict)
        if each.occasion is not None and field is not None:
            schedule = decode_occasion(each.occasion).schedule
            minute = each.finished_at.replace(second=0, microsecond=0)
            yield Count(schedule, minute, field, foreign.get(each.target))


def key_of(namespace: str, count: Count) -> str:
    """The key of a schedule's minute in the analytics store."""
    namespace = count.namespace or namespace
    return f"duly:{namespace}:schedule:{count.schedule}:{count.minute:%Y-%m-%dT%H:%MZ}"
