"""Failure statistics: outcomes, retries and poison, counted over a period and up to a limit."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from duly.domain.checks import checked_moment, checked_wait
from duly.errors import InvalidInput

COUNTED_UP_TO = 10_000
CANDIDATES = 10
DAY = timedelta(days=1)


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


def checked_since(since: datetime | timedelta | float, now: datetime) -> datetime:
    """The start of the period, given as a past moment or as a duration before now."""
    if not isinstance(since, datetime):
        try:
            return checked_moment("since", now - timedelta(seconds=checked_wait("since", since)))
        except OverflowError:
            raise InvalidInput("since", "give a moment or a time up to now") from None
    moment = checked_moment("since", since)
    if moment > now:
        raise InvalidInput("since", f"{moment.isoformat()} has not come yet; give one that has")
    return moment
