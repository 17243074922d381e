"""Rules made of other rules: `AnyOf`, the moments of several."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from heapq import merge

from msgspec import UNSET

from duly.domain.time.occurrences import AnyRule, Occurrence
from duly.domain.time.recurrences import Cron, Every
from duly.errors import InvalidInput

MOST_RULES = 50
MOST_COMPARED = 100_000
"""How many moments are compared to count those that rules share once."""


class AnyOf(AnyRule, frozen=True, tag="any_of"):
    """The moments of several rules; one that belongs to more than one of them comes once."""

    rules: tuple[Cron | Every, ...]

    def __post_init__(self) -> None:
        if not all(isinstance(each, Cron | Every) for each in self.rules):
            raise InvalidInput("any_of", "give rules of duly.cron and duly.every")
        if not 2 <= len(self.rules) <= MOST_RULES:
            raise InvalidInput("any_of", f"give 2 to {MOST_RULES} rules, not {len(self.rules)}")
        if len(set(self.rules)) < len(self.rules):
            raise InvalidInput("any_of", "a rule is given twice; leave one of them out")
        if len({each.zone_name for each in self.rules} - {None}) > 1:
            raise InvalidInput("tz", "give all rules of any_of the same time zone")
        excepts = [each.except_ for each in self.rules if each.except_ is not UNSET]
        if len({each.calendar for each in excepts}) > 1:
            raise InvalidInput("calendar", "give all rules of any_of the same calendar")

    @property
    def zone_name(self) -> str | None:
        """The zone of its cron expressions and business days."""
        return next((each.zone_name for each in self.rules if each.zone_name), None)

    def describe(self) -> str:
        """Such as "at 09:00 every day, or at 17:30 on Friday, Europe/Oslo"."""
        zone = "" if self.zone_name is None else f", {self.zone_name}"
        ends = {each.except_words for each in self.rules}
        common = ends.pop() if len(ends) == 1 else ""
        parts = []
        for each in self.rules:
            own = each.except_words
            text = each.describe().removesuffix(own).removesuffix(zone)
            parts.append(text if common else f"{text}{own}")
        return f"{', or '.join(parts)}{zone}{common}"

    def count(self, after: datetime, until: datetime) -> int:
        """How many occurrences lie after the first moment and not after the second.

        If there are more than 100,000, moments that rules share count for each of them: to find
        them would take long.
        """
        total = sum(each.count(after, until) for each in self.rules)
        return sum(1 for _ in self._between(after, until)) if total <= MOST_COMPARED else total

    def last(self, after: datetime, until: datetime) -> Occurrence | None:
        """The latest occurrence after the first moment and not after the second."""
        found = [each.last(after, until) for each in self.rules]
        return max(filter(None, found), key=lambda each: each.at, default=None)

    def _walk(self, after: timedelta) -> Iterator[Occurrence]:
        before = None
        for found in merge(*(each._walk(after) for each in self.rules), key=lambda each: each.at):
            if found.at != before:
                yield found
            before = found.at

    def _next(self, after: timedelta) -> Occurrence | None:
        found = [each._next(after) for each in self.rules]
        return min(filter(None, found), key=lambda each: each.at, default=None)
