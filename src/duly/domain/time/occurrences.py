"""Occurrences, each with its identity, and the interface of all rules."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, takewhile

import msgspec

from duly.domain.checks import EARLIEST, LATEST
from duly.domain.moments import EPOCH
from duly.errors import InvalidInput, quoted

LONGEST_PREVIEW = 10_000


class Occurrence(msgspec.Struct, frozen=True):
    """One moment of a rule.

    `identity` is unique among the occurrences of a schedule: the instant for cron and every; the
    wall time or year for at and yearly, which stays the same when the instant moves.
    `shifted` means that its wall time was in a clock gap and was moved.
    """

    identity: str
    at: datetime
    shifted: bool = False


class AnyRule(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """The interface of all rules. Moments are in UTC, from 1970 up to the year 9000."""

    @property
    def zone_name(self) -> str | None:
        """The zone that the moments depend on, if any."""
        return None

    @property
    def is_wall_time(self) -> bool:
        """Whether the rule uses local time, so that new zone data may move its moments."""
        return self.zone_name is not None

    def describe(self) -> str:
        """The rule in plain English."""
        raise NotImplementedError

    def next_after(self, moment: datetime) -> datetime | None:
        """The first moment strictly after the given one, or None if there is none."""
        found = self._next(since_epoch(moment, "moment"))
        return None if found is None else found.at

    def preview(self, n: int, *, after: datetime) -> list[datetime]:
        """The next `n` moments; fewer if the rule ends."""
        if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= LONGEST_PREVIEW:
            raise InvalidInput(
                "n", f"{quoted(n)} is not a whole number from 0 to {LONGEST_PREVIEW}"
            )
        return [each.at for each in islice(self.occurrences(after), n)]

    def occurrences(self, after: datetime) -> Iterator[Occurrence]:
        """The occurrences strictly after the given moment, in order."""
        return self._walk(since_epoch(after, "after"))

    def count(self, after: datetime, until: datetime) -> int:
        """The number of occurrences after `after`, up to and including `until`."""
        return sum(1 for _ in self._between(after, until))

    def last(self, after: datetime, until: datetime) -> Occurrence | None:
        """The last occurrence after `after`, up to and including `until`."""
        latest = deque(self._between(after, until), maxlen=1)
        return latest.pop() if latest else None

    def _next(self, after: timedelta) -> Occurrence | None:
        """The first occurrence strictly after a moment, given as the time since 1970."""
        raise NotImplementedError

    def _walk(self, after: timedelta) -> Iterator[Occurrence]:
        while (found := self._next(after)) is not None:
            yield found
            after = found.at - EPOCH

    def _between(self, after: datetime, until: datetime) -> Iterator[Occurrence]:
        end = since_epoch(until, "until")
        return takewhile(lambda each: each.at - EPOCH <= end, self.occurrences(after))


def since_epoch(moment: datetime, field: str) -> timedelta:
    """The time from 1970 to an aware datetime."""
    try:
        return moment - EPOCH
    except TypeError:
        raise InvalidInput(
            field,
            f"{quoted(moment)} is no moment with a time zone; give one, as in datetime.now(UTC)",
        ) from None


def is_in_time(moment: datetime) -> bool:
    """Whether the moment is in the range that stores keep."""
    return EARLIEST <= moment < LATEST


def instant_text(moment: datetime) -> str:
    """An instant in UTC as its identity: `2026-11-15T09:00:00Z`."""
    return moment.isoformat().replace("+00:00", "Z")
