"""A second implementation of cron: check the clock second by second, by the rules R1 to R4.

It shares only the zones with the product. `python -m tests.domain.oracle --cases 100000` compares
both in that many cases. A case is one expression in some hours of a zone, most often around a
clock change: it compares every run there, and next, count and last from moments between them.
Expressions without seconds are checked minute by minute.
"""

import argparse
import random
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import count, islice
from typing import NamedTuple

from duly.domain.time.rules import Cron, cron
from duly.domain.time.zones import names, zone
from duly.errors import InvalidInput
from tests.domain.expressions import expression

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
EXPRESSIONS_PER_PLACE = 10
ZONES = sorted(names())


class Naive:
    """A cron expression, interpreted literally."""

    def __init__(self, text: str) -> None:
        fields = text.split()
        second, minute, hour, self.monthday, month, self.weekday = ["0", *fields][-6:]
        self.seconds = {each for each in range(60) if allows(second, each, 0, 59)}
        self.minutes = {each for each in range(60) if allows(minute, each, 0, 59)}
        self.hours = {each for each in range(24) if allows(hour, each, 0, 23)}
        self.months = {each for each in range(1, 13) if allows(month, each, 1, 12)}
        self.is_fixed = not any(each.startswith("*") for each in (second, minute, hour))
        self.days: dict[date, bool] = {}

    def matches(self, shown: datetime) -> bool:
        if shown.minute not in self.minutes or shown.second not in self.seconds:
            return False
        return shown.hour in self.hours and self.takes_day(shown.date())

    def takes_day(self, day: date) -> bool:
        if day not in self.days:
            self.days[day] = day.month in self.months and self.is_day(day)
        return self.days[day]

    def is_day(self, day: date) -> bool:
        either = is_monthday(self.monthday, day), is_weekday(self.weekday, day)
        both = self.monthday.startswith("*") or self.weekday.startswith("*")
        return all(either) if both else any(either)


def allows(text: str, value: int, least: int, most: int) -> bool:
    return any(item_allows(item, value, least, most) for item in text.split(","))


def item_allows(item: str, value: int, least: int, most: int) -> bool:
    bounds, slash, step = item.partition("/")
    first, dash, last = bounds.partition("-")
    low = least if first == "*" else number(first)
    high = number(last) if dash else most if first == "*" or slash else low
    if last == "SUN" and low > 0:
        high = 7
    return low <= value <= high and (value - low) % int(step or 1) == 0


def number(text: str) -> int:
    if text in MONTHS:
        return MONTHS.index(text) + 1
    return WEEKDAYS.index(text) if text in WEEKDAYS else int(text)


def is_monthday(text: str, day: date) -> bool:
    return any(is_this_monthday(item, day) for item in text.split(","))


def is_this_monthday(item: str, day: date) -> bool:
    later = [day + each * DAY for each in range(1, 8) if (day + each * DAY).month == day.month]
    if item == "L":
        return not later
    if item == "LW":
        return day.weekday() < 5 and not any(each.weekday() < 5 for each in later)
    return allows(item, day.day, 1, 31)


def is_weekday(text: str, day: date) -> bool:
    return any(is_this_weekday(item, day) for item in text.split(","))


def is_this_weekday(item: str, day: date) -> bool:
    weekday = day.isoweekday() % 7
    if named := re.fullmatch(r"(\w+)(?:L|#(\d))", item):
        if number(named[1]) % 7 != weekday:
            return False
        is_last = (day + 7 * DAY).month != day.month
        return is_last if named[2] is None else (day.day + 6) // 7 == int(named[2])
    if item.startswith("*"):
        return allows(item, weekday, 0, 6)
    return allows(item, weekday, 0, 7) or (weekday == 0 and allows(item, 7, 0, 7))


class Look(NamedTuple):
    """The clock at an instant: what it shows, and the latest time that it has shown before."""

    at: datetime
    shown: datetime
    latest: datetime
    jumped: bool


class Place(NamedTuple):
    """Some hours of a zone's time."""

    zone: str
    looks: list[Look]

    @property
    def begin(self) -> datetime:
        return self.looks[0].at

    @property
    def end(self) -> datetime:
        return self.looks[-1].at


def a_place(zone_name: str, begin: datetime, reach: timedelta, step: timedelta) -> Place:
    looks, latest = [], latest_before(zone_name, begin)
    for at, shown in look_at_clock(zone_name, begin, begin + reach, step):
        looks.append(Look(at, shown, latest, jumped=shown - latest > step))
        latest = max(latest, shown)
    return Place(zone_name, looks)


def latest_before(zone_name: str, begin: datetime) -> datetime:
    # Since 1970, clocks have changed only at whole and half minutes.
    half = timedelta(seconds=30)
    start = begin - (DAY if changes(zone_name, begin - DAY, begin) else half)
    return max(shown for _, shown in look_at_clock(zone_name, start, begin, half)) + half - SECOND


def look_at_clock(
    zone_name: str, begin: datetime, end: datetime, step: timedelta
) -> Iterator[tuple[datetime, datetime]]:
    here = zone(zone_name)
    while begin < end:
        yield begin, begin.astimezone(here).replace(tzinfo=None, fold=0)
        begin += step


def runs(naive: Naive, place: Place, *, makes_up: bool) -> Iterator[tuple[datetime, bool]]:
    """Every run in this place, and whether it was moved out of a gap."""
    for at, shown, latest, jumped in place.looks:
        if naive.matches(shown):
            if shown > latest or not naive.is_fixed:
                yield at, False
        elif jumped and makes_up and leaves_out_a_match(naive, latest, shown):
            yield at, True


def leaves_out_a_match(naive: Naive, latest: datetime, shown: datetime) -> bool:
    """Whether the clock skipped a time that the expression names; intervals name none."""
    if not naive.is_fixed:
        return False
    left_out = range(1, (shown - latest) // SECOND)
    return any(naive.matches(latest + each * SECOND) for each in left_out)


def random_place(chance: random.Random, *, by_second: bool) -> Place:
    name = chance.choice(ZONES)
    middle = datetime(chance.randint(1970, 2090), 1, 3, tzinfo=UTC)
    middle += timedelta(seconds=chance.randrange(360 * 86_400))
    if chance.random() < 0.8:
        middle = change_after(name, middle)
    reach = timedelta(minutes=80 if by_second else 40 * 60)
    begin = (middle - chance.random() * reach).replace(second=0, microsecond=0)
    half_minutes = 1 if has_odd_offset(name, begin) else 2
    step = SECOND if by_second else half_minutes * timedelta(seconds=30)
    return a_place(name, max(begin, EARLIEST), reach, step)


def change_after(zone_name: str, begin: datetime) -> datetime:
    """The second of the first clock change within a year, or the beginning."""
    before = begin
    while not changes(zone_name, before, before + DAY):
        before += DAY
        if before - begin > 366 * DAY:
            return begin
    after = before + DAY
    while after - before > SECOND:
        middle = before + (after - before) // SECOND // 2 * SECOND
        before, after = (before, middle) if changes(zone_name, before, middle) else (middle, after)
    return after


def changes(zone_name: str, before: datetime, after: datetime) -> bool:
    here = zone(zone_name)
    return before.astimezone(here).utcoffset() != after.astimezone(here).utcoffset()


def has_odd_offset(zone_name: str, begin: datetime) -> bool:
    looks = look_at_clock(zone_name, begin - 4 * DAY, begin + 4 * DAY, DAY)
    return any(shown.second != at.second for at, shown in looks)


def cases(seed: int) -> Iterator[tuple[str, str | None]]:
    """Endless cases: a description, and the difference, if there is one."""
    for turn in count():
        chance = random.Random(f"{seed}/{turn}")
        by_second = chance.random() < 0.25
        place = random_place(chance, by_second=by_second)
        for _ in range(EXPRESSIONS_PER_PLACE):
            around = chance.choice(place.looks).shown
            text = expression(chance, around, by_second=by_second)
            gap = chance.choice(["run", "run", "skip"])
            name = f"{text!r}, {place.zone!r}, {gap!r} from {place.begin} to {place.end}"
            yield name, difference(chance, text, place, gap)


def difference(chance: random.Random, text: str, place: Place, gap: str) -> str | None:
    naive = Naive(text)
    try:
        rule = cron(text, place.zone, gap)  # type: ignore[arg-type]
    except InvalidInput as refused:
        return f"refused: {refused}" if ever_matches(naive) else None
    assert isinstance(rule, Cron)
    wanted = list(runs(naive, place, makes_up=gap == "run"))
    ahead = islice(rule.occurrences(place.begin - SECOND), len(wanted) + 1)
    found = [(each.at, each.shifted) for each in ahead if each.at <= place.end]
    if found != wanted:
        odd = sorted(set(found) ^ set(wanted))[:3]
        return f"{len(found)} runs, not {len(wanted)}: {odd}"
    return wrong_answer(chance, rule, place, [at for at, _ in wanted])


def ever_matches(naive: Naive) -> bool:
    return any(naive.takes_day(date(2000, 1, 1) + each * DAY) for each in range(50 * 366))


def wrong_answer(
    chance: random.Random, rule: Cron, place: Place, wanted: list[datetime]
) -> str | None:
    for _ in range(5):
        start = place.begin + chance.random() * (place.end - place.begin)
        if wanted and chance.random() < 0.4:
            start = chance.choice(wanted) - chance.choice([0, 0, 1, 0.000001]) * SECOND
        stop = start + chance.random() * (place.end - start)
        if wrong := wrong_next(rule, start, wanted, place.end) or wrong_sum(
            rule, start, stop, wanted
        ):
            return wrong
    return None


def wrong_next(rule: Cron, start: datetime, wanted: list[datetime], end: datetime) -> str | None:
    right = next((each for each in wanted if each > start), None)
    found = rule.next_after(start)
    beyond = right is None and (found is None or found > end)
    return None if found == right or beyond else f"next_after({start}): {found}, not {right}"


def wrong_sum(rule: Cron, start: datetime, stop: datetime, wanted: list[datetime]) -> str | None:
    inside = wanted[bisect_right(wanted, start) : bisect_right(wanted, stop)]
    count, last = rule.count(start, stop), rule.last(start, stop)
    if count != len(inside):
        return f"count({start}, {stop}): {count}, not {len(inside)}"
    if (last and last.at) != (inside[-1] if inside else None):
        return f"last({start}, {stop}): {last}, not {inside[-1:]}"
    return None


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cases", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    wrong = 0
    for case, problem in islice(cases(given.seed), given.cases):
        if problem:
            wrong += 1
            print(f"{case}\n  {problem}", flush=True)
    print(f"{given.cases:,} cases, {wrong:,} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
