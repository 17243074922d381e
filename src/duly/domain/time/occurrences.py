"""What a rule names: occurrences, each with its identity, and the questions every rule answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, takewhile

import msgspec

from duly.domain.checks import EARLIEST, LATEST
from duly.domain.time.offsets import EPOCH
from duly.errors import InvalidInput, quoted

LONGEST_PREVIEW = 10_000


class Occurrence(msgspec.Struct, frozen=True):
    """One moment that a rule names.

    `identity` tells it from every other occurrence of its schedule: the instant for cron and
    every; for at and yearly what was meant, which stays when the instant moves.
    `shifted` says that its wall time fell into a gap of the clock and was moved.
    """

    identity: str
    at: datetime
    shifted: bool = False


class AnyRule(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """What every rule can be asked. All moments are in UTC, from 1970 up to the year 9000."""

    @property
    def zone_name(self) -> str | None:
        """The zone that the moments depend on, if they do."""
        return None

    @property
    def is_wall_time(self) -> bool:
        """Whether the rule speaks of clocks on walls, so that new zone data may move it."""
        return self.zone_name is not None

    def describe(self) -> str:
        """The rule in plain English."""
        raise NotImplementedError

    def next_after(self, moment: datetime) -> datetime | None:
        """The first moment strictly later than the given one, or None when there is none."""
        found = self._next(since_epoch(moment, "moment"))
        return None if found is None else found.at

    def preview(self, n: int, *, after: datetime) -> list[datetime]:
        """The next `n` moments; fewer when there are no more."""
        if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= LONGEST_PREVIEW:
            raise InvalidInput(
                "n", f"{quoted(n)} is not a whole number from 0 to {LONGEST_PREVIEW}"
            )
        return [each.at for each in islice(self.occurrences(after), n)]

    def occurrences(self, after: datetime) -> Iterator[Occurrence]:
        """The occurrences strictly later than the given moment, in their order."""
        return self._walk(since_epoch(after, "after"))

    def count(self, after: datetime, until: datetime) -> int:
        """How many occurrences lie after the first moment and not after the second."""
        return sum(1 for _ in self._between(after, until))

    def last(self, after: datetime, until: datetime) -> Occurrence | None:
        """The latest occurrence after the first moment and not after the second."""
        latest = deque(self._between(after, until), maxlen=1)
        return latest.pop() if latest else None

    def _next(self, after: timedelta) -> Occurrence | None:
        """The first occurrence strictly later than that long after 1970 began."""
        raise NotImplementedError

    def _walk(self, after: timedelta) -> Iterator[Occurrence]:
        while (found := self._next(after)) is not None:
            yield found
            after = found.at - EPOCH

    def _between(self, after: datetime, until: datetime) -> Iterator[Occurrence]:
        end = since_epoch(until, "until")
        return takewhile(lambda each: each.at - EPOCH <= end, self.occurrences(after))


def since_epoch(moment: datetime, field: str) -> timedelta:
    """How long after 1970 began the moment is; it must know its zone."""
    try:
        return moment - EPOCH
    except TypeError:
        raise InvalidInput(
            field,
            f"{quoted(moment)} is no moment with a time zone; give one, as in datetime.now(UTC)",
        ) from None


def is_in_time(moment: datetime) -> bool:
    """Whether the moment is one that a store keeps."""
    return EARLIEST <= moment < LATEST


def instant_text(moment: datetime) -> str:
    """An instant in UTC as its identity: `2026-11-15T09:00:00Z`."""
    return moment.isoformat().replace("+00:00", "Z")
