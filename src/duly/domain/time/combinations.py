"""Rules made of other rules: `AnyOf`, the moments of several."""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.domain.time.occurrences import AnyRule, Occurrence
from duly.domain.time.recurrences import Cron, Every
from duly.errors import InvalidInput

MOST_RULES = 50
INSTANT = timedelta(microseconds=1)


class AnyOf(AnyRule, frozen=True, tag="any_of"):
    """The moments of several rules; one that belongs to more than one of them comes once."""

    rules: tuple[Cron | Every, ...]

    def __post_init__(self) -> None:
        if not all(isinstance(each, Cron | Every) for each in self.rules):
            raise InvalidInput("any_of", "give rules of duly.cron and duly.every")
        if not 2 <= len(self.rules) <= MOST_RULES:
            raise InvalidInput("any_of", f"{len(self.rules)} rules are not from 2 to {MOST_RULES}")
        if len(set(self.rules)) < len(self.rules):
            raise InvalidInput("any_of", "a rule is given twice; leave one of them out")
        if len({each.tz for each in self.rules if isinstance(each, Cron)}) > 1:
            raise InvalidInput("tz", "give all rules of any_of the same time zone")

    @property
    def zone_name(self) -> str | None:
        """The zone of its cron expressions."""
        return next((each.tz for each in self.rules if isinstance(each, Cron)), None)

    def describe(self) -> str:
        """Such as "at 09:00 every day, or at 17:30 on Friday, Europe/Oslo"."""
        zone = "" if self.zone_name is None else f", {self.zone_name}"
        return ", or ".join(each.describe().removesuffix(zone) for each in self.rules) + zone

    def count(self, after: datetime, until: datetime) -> int:
        """How many occurrences lie after the first moment and not after the second.

        Those of the rule that has the most are not enumerated.
        """
        ordered = sorted(self.rules, key=lambda each: -each.count(after, until))
        total = ordered[0].count(after, until)
        for place, rule in enumerate(ordered[1:], 1):
            denser = ordered[:place]
            total += sum(
                not any(each.count(found.at - INSTANT, found.at) for each in denser)
                for found in rule._between(after, until)
            )
        return total

    def last(self, after: datetime, until: datetime) -> Occurrence | None:
        """The latest occurrence after the first moment and not after the second."""
        found = [each.last(after, until) for each in self.rules]
        return max(filter(None, found), key=lambda each: each.at, default=None)

    def _next(self, after: timedelta) -> Occurrence | None:
        found = [each._next(after) for each in self.rules]
        return min(filter(None, found), key=lambda each: each.at, default=None)
