"""Figures of failure: how deliveries fare, counted over a time and up to a limit."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from duly.domain.checks import checked_moment, checked_wait
from duly.errors import InvalidInput

COUNTED_UP_TO = 10_000
CANDIDATES = 10
DAY = timedelta(days=1)


class Retries(msgspec.Struct, frozen=True):
    """What waits for another attempt: how many, and when the first and the last are to be made."""

    count: int = 0
    next_at: datetime | None = None
    last_at: datetime | None = None


class LikelyPoison(msgspec.Struct, frozen=True):
    """A delivery whose worker died while it held it, so many times since its last attempt."""

    id: str
    target: str
    crashes: int
    attempt: int


class Poison(msgspec.Struct, frozen=True):
    """What may be poison: how many, and those with the most crashes."""

    count: int = 0
    first: list[LikelyPoison] = []


class OldestWaiting(msgspec.Struct, frozen=True):
    """The delivery that is due for longest and held by nobody."""

    id: str
    target: str
    due_at: datetime


class Failing(msgspec.Struct, frozen=True):
    """What is being tried again, looks like poison, or stands still."""

    retries: Retries
    poison: int
    blocked_streams: int
    paused_streams: int


class FailureStats(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands and how it fared since a moment."""

    since: datetime
    at: datetime
    counted_up_to: int
    """No figure looks at more than that many, beginning with the newest."""
    capped: list[str] = []
    """The figures that did not look at all there is."""
    states: dict[str, int] = {}
    """Of the deliveries accepted since: how many are in each state."""
    attempts: dict[int, int] = {}
    """Of those that are completed or dead: how many took so many attempts."""
    reasons: dict[str, int] = {}
    """Attempts that failed since, by reason."""
    retries: Retries = Retries()
    poison: Poison = Poison()
    blocked_streams: int = 0
    paused_streams: int = 0
    oldest_waiting: OldestWaiting | None = None


def checked_since(since: datetime | timedelta | float, now: datetime) -> datetime:
    """From when to count: a moment that has passed, or how long ago that was."""
    if not isinstance(since, datetime):
        try:
            return checked_moment("since", now - timedelta(seconds=checked_wait("since", since)))
        except OverflowError:
            raise InvalidInput("since", "give a moment or a time up to now") from None
    moment = checked_moment("since", since)
    if moment > now:
        raise InvalidInput("since", f"{moment.isoformat()} has not come yet; give one that has")
    return moment
