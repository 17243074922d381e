"""Failure statistics: outcomes, retries and poison, counted over a period and up to a limit."""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.domain.checks import checked_moment, checked_wait
from duly.errors import InvalidInput

CANDIDATES = 10
DAY = timedelta(days=1)


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
