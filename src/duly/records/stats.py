"""Statistics: counts over time, failures, and live figures."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from duly.records.progress import Progress


class Retries(msgspec.Struct, frozen=True):
    """Deliveries waiting for another attempt: their number, and the first and last due moment."""

    count: int = 0
    next_at: datetime | None = None
    last_at: datetime | None = None


class LikelyPoison(msgspec.Struct, frozen=True):
    """A delivery whose worker died `crashes` times since its last attempt ended."""

    id: str
    target: str
    crashes: int
    attempt: int


class Poison(msgspec.Struct, frozen=True):
    """Deliveries that may be poison: their number, and those with the most crashes."""

    count: int = 0
    first: list[LikelyPoison] = []


class OldestWaiting(msgspec.Struct, frozen=True):
    """The delivery that is due the longest and not claimed."""

    id: str
    target: str
    due_at: datetime


class Failing(msgspec.Struct, frozen=True):
    """Counts of retries, likely poison, and streams that are blocked or paused."""

    retries: Retries
    poison: int
    blocked_streams: int
    paused_streams: int


class FailureStats(msgspec.Struct, frozen=True, kw_only=True):
    """Failure statistics since a moment."""

    since: datetime
    at: datetime
    counted_up_to: int
    """Each count examines at most this many rows, newest first."""
    capped: list[str] = []
    """The counts that did not examine all rows, because of `counted_up_to`."""
    states: dict[str, int] = {}
    """Deliveries accepted since, by state."""
    attempts: dict[int, int] = {}
    """Deliveries that are completed or dead, by number of attempts."""
    reasons: dict[str, int] = {}
    """Attempts that failed since, by reason."""
    retries: Retries = Retries()
    poison: Poison = Poison()
    blocked_streams: int = 0
    paused_streams: int = 0
    oldest_waiting: OldestWaiting | None = None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one period; sums of seconds, divided by the counts, give averages.

    `failed` counts attempts, also those of deliveries completed later; `late` and `on_time` count
    first attempts after and within the grace period; `reclaimed` what dead workers held.
    """

    accepted: int = 0
    completed: int = 0
    failed: int = 0
    dead: int = 0
    cancelled: int = 0
    on_time: int = 0
    late: int = 0
    reclaimed: int = 0
    lateness_seconds: float = 0.0
    run_seconds: float = 0.0

    def __bool__(self) -> bool:
        return self != Counts()


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated percentiles of a duration in seconds: half the values are up to `p50`."""

    p50: float
    p95: float
    p99: float


class Point(Counts, frozen=True, kw_only=True):
    """The counts of one step that starts at `at`, and percentiles, null without values.

    `lateness` is the time from due to the first attempt, `pickup` from ready to any attempt, `run`
    the time that an attempt took.
    """

    at: datetime
    lateness: Percentiles | None = None
    pickup: Percentiles | None = None
    run: Percentiles | None = None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A time series of counts; steps in which nothing happened are included."""

    since: datetime
    until: datetime
    step: float
    points: list[Point]


class Second(msgspec.Struct, frozen=True, kw_only=True):
    """What all workers of the namespace did since the second before, and the status."""

    id: int
    at: datetime
    counts: Counts
    due: int
    late: int
    processing: int
    dead_letters: int
    oldest_due_seconds: float
    workers: int
    progress: Annotated[
        list[Progress], Meta(description="the latest reports of running deliveries, at most 50")
    ] = []
