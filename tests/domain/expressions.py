"""Random cron expressions, most of which match around a given local time."""

import random
from datetime import datetime, timedelta

from duly.domain.time.cron import MONTH_NAMES, WEEKDAY_NAMES

DAY = timedelta(days=1)


def expression(chance: random.Random, around: datetime, *, by_second: bool) -> str:
    hours = [*range(4), 23, around.hour, (around.hour + 1) % 24]
    fields = [
        a_field(chance, 0, 59, [0, 15, 30, 59, around.minute], stars=0.3),
        a_field(chance, 0, 23, hours, stars=0.4),
        monthdays(chance, around),
        a_field(chance, 1, 12, [around.month, around.month % 12 + 1], MONTH_NAMES, stars=0.8),
        weekdays(chance, around),
    ]
    if by_second:
        fields.insert(0, a_field(chance, 0, 59, [0, 1, 30, 59], stars=0.3))
    return " ".join(fields)


def monthdays(chance: random.Random, around: datetime) -> str:
    likely = [around.day, (around + DAY).day, 1, 31, 29]
    plain = a_field(chance, 1, 31, likely, stars=0.6)
    return chance.choice([plain, "*", "*", "L", "LW", f"{around.day},L"])


def weekdays(chance: random.Random, around: datetime) -> str:
    today = around.isoweekday() % 7
    texts = [
        a_field(chance, 0, 6, [today, (today + 1) % 7, 0], WEEKDAY_NAMES, stars=0.5),
        "*",
        "*",
        f"{today}L",
        f"{WEEKDAY_NAMES[today]}#{(around.day + 6) // 7}",
        f"{today or 7},{chance.randrange(7)}#{chance.randint(1, 5)}",
        chance.choice(["FRI-SUN", "5-7", "SUN-TUE", "0-7/3", "7", "7/2"]),
    ]
    return chance.choice(texts)


def a_field(
    chance: random.Random,
    least: int,
    most: int,
    likely: list[int],
    names: tuple[str, ...] = (),
    stars: float = 0.3,
) -> str:
    if chance.random() < stars:
        return chance.choice(["*", "*", f"*/{chance.choice([2, 3, 5, 7])}"])
    length = chance.choice([1, 1, 1, 2, 3])
    return ",".join(an_item(chance, least, most, likely, names) for _ in range(length))


def an_item(
    chance: random.Random, least: int, most: int, likely: list[int], names: tuple[str, ...]
) -> str:
    first = chance.choice(likely) if chance.random() < 0.7 else chance.randint(least, most)
    last = chance.randint(first, most)
    step = chance.randint(1, most - least)
    word = names[first - least] if names and chance.random() < 0.5 else str(first)
    forms = [word, word, f"{word}-{last}", f"{first}-{last}/{step}", f"{word}/{step}"]
    return chance.choice(forms)
