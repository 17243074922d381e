"""The status of a namespace."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from duly.records.stats import Counts, Retries
from duly.records.worker import Worker

COUNTED_UP_TO = 10_000
"""Counts of deliveries end there: a larger number is not worth its scan."""


class BacklogStatus(msgspec.Struct, frozen=True):
    """Late deliveries being worked off; `rate` is per second, and None at first."""

    count: int
    oldest: datetime
    rate: float | None = None
    seconds_left: float | None = None


def draining(count: int, oldest: datetime, drained: int, seconds: float) -> BacklogStatus:
    """Late deliveries of which some were drained within some seconds."""
    if drained <= 0 or seconds <= 0:
        return BacklogStatus(count, oldest)
    rate = drained / seconds
    return BacklogStatus(count, oldest, round(rate, 1), round(count / rate, 1))


class NamespaceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a namespace; no count is higher than `counted_up_to`.

    `due` deliveries are not claimed yet. Of these, `late` ones are due for longer than the grace
    period and wait neither for a circuit nor for a paused endpoint. `upcoming` ones are due later.
    """

    at: datetime
    store_seconds: float
    counted_up_to: int = COUNTED_UP_TO
    due: int = 0
    oldest_due_at: datetime | None = None
    late: int = 0
    oldest_late_at: datetime | None = None
    upcoming: int = 0
    processing: int = 0
    dead: int = 0
    undecided: Annotated[
        int, Meta(description="dead letters neither recovering, nor held, nor given up")
    ] = 0
    retries: Retries = Retries()
    poison: int = 0
    blocked_streams: int = 0
    paused_streams: int = 0
    workers: int = 0
    last_beat_at: datetime | None = None
    planner_lag: float = 0.0
    circuits_open: list[str] = []
    circuits_probing: list[str] = []
    endpoints_paused: list[str] = []
    endpoints_disabled: list[str] = []

    @property
    def oldest_due_seconds(self) -> float:
        """How long the oldest due delivery has been due."""
        due_at = self.oldest_due_at
        return 0.0 if due_at is None else max((self.at - due_at).total_seconds(), 0.0)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The status as people ask for it; no count is higher than `counted_up_to`.

    `planner_lag` is in seconds.
    """

    store: str
    workers: int
    pending: int
    processing: int
    dead: int
    counted_up_to: int
    recovering: BacklogStatus | None
    next_planned_at: datetime | None
    planner_lag: float
    zones: str


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The status now, and what happened in the last hour."""

    now: NamespaceStatus
    last_hour: Counts


class Top(msgspec.Struct, frozen=True, kw_only=True):
    """Rates of the last minute, what is due and not claimed, and the workers that are alive.

    `due` and `retries` are not counted beyond `counted_up_to`.
    """

    at: datetime
    accepted_per_second: float
    completed_per_second: float
    failed_per_second: float
    counted_up_to: int
    due: int
    oldest_due_at: datetime | None
    retries: int
    workers: list[Worker]
