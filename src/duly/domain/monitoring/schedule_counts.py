"""What is counted of schedules: how their deliveries ended, by the minute."""

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
}
"""What is counted; being handed back or put off is nothing that became of a delivery."""


class Count(NamedTuple):
    """One thing that is counted, in one minute."""

    schedule: str
    minute: datetime
    field: str
    namespace: str | None = None
    """Whose schedule it is, if not the worker's own namespace's."""


def counts_of(settled: Iterable[Settlement], foreign: Mapping[int, str]) -> Iterator[Count]:
    """What settlements add one to; those without a schedule add nothing.

    `foreign` has the namespaces of targets that are not of the worker's own.
    """
    for each in settled:
        field = FIELDS.get(each.verdict)
        if each.occasion is not None and field is not None:
            schedule = decode_occasion(each.occasion).schedule
            minute = each.finished_at.replace(second=0, microsecond=0)
            yield Count(schedule, minute, field, foreign.get(each.target))


def key_of(namespace: str, count: Count) -> str:
    """The name under which a schedule's minute is kept."""
    namespace = count.namespace or namespace
    return f"duly:{namespace}:schedule:{count.schedule}:{count.minute:%Y-%m-%dT%H:%MZ}"
