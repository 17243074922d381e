"""Descriptions of rules in English: short where there is a phrase, and always true."""

import random
from datetime import UTC, datetime

import pytest

from duly.domain.time.cron import pattern
from duly.domain.time.cron_patterns import Fields
from duly.domain.time.descriptions import of_cron
from duly.domain.time.rules import Rule, at, cron, every, yearly
from duly.errors import InvalidInput
from tests.domain.expressions import expression

pytestmark = pytest.mark.requirement("C2")


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("0 9 * * MON", "at 09:00 on Monday"),
        ("0 9 * * *", "at 09:00 every day"),
        ("0 0 * * *", "at 00:00 every day"),
        ("0 9,17 * * 1-5", "at 09:00 and 17:00 on Monday to Friday"),
        ("0,30 8,12 * * 6,0", "at 08:00, 08:30, 12:00 and 12:30 on Saturday and Sunday"),
        ("0 0 * * 5-7", "at 00:00 on Friday to Sunday"),
        ("10 0 9 * * *", "at 09:00:10 every day"),
        ("* * * * * *", "every second"),
        ("*/5 * * * * *", "every 5 seconds"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/15 * * 6 *", "every 15 minutes in June"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45 on Monday to Friday"),
        ("*/20 8 9 * * *", "at 09:08, 09:08:20 and 09:08:40 every day"),
        ("* * 9-10 * * *", "every second from 09:00 to 10:59:59"),
        ("*/15 1,5,9 * * *", "every 15 minutes of hours 1 to 9 in steps of 4"),
        ("0 * * * *", "at minute 0 of every hour"),
        ("5 * * * *", "at minute 5 of every hour"),
        ("*/7 * * * *", "at minutes 0 to 56 in steps of 7 of every hour"),
        ("1,2,50 * * * *", "at minutes 1, 2 and 50 of every hour"),
        ("30 */2 * * *", "at minute 30 of hours 0 to 22 in steps of 2"),
        ("15,45 * * * * *", "at seconds 15 and 45 of every minute"),
        ("* 30 * * * *", "every second of minute 30 of every hour"),
        ("30 */20 * * * *", "at second 30 of minutes 0 to 40 in steps of 20 of every hour"),
        ("0 0 1 * *", "at 00:00 on the 1st of the month"),
        ("0 0 1,2,13,22,23 * *", "at 00:00 on the 1st, 2nd, 13th, 22nd and 23rd of the month"),
        ("0 0 1-7 * *", "at 00:00 on the 1st to 7th of the month"),
        ("0 0 1 1 *", "at 00:00 on 1 January"),
        ("0 0 29 2 *", "at 00:00 on 29 February"),
        ("0 0 1 1,7 *", "at 00:00 on the 1st of the month in January and July"),
        ("0 9 * 6-8 *", "at 09:00 every day from June to August"),
        ("0 9 L * *", "at 09:00 on the last day of the month"),
        ("0 9 LW * *", "at 09:00 on the last day from Monday to Friday of the month"),
        ("0 9 15,L * *", "at 09:00 on the 15th of the month and the last day of the month"),
        ("0 9 * * 5L", "at 09:00 on the last Friday of the month"),
        ("0 9 * * 1#2", "at 09:00 on the second Monday of the month"),
        ("30 4 1,15 * 5", "at 04:30 on the 1st and 15th of the month, and also on Friday"),
        ("30 4 1 6 5", "at 04:30 on the 1st of the month, and also on Friday, only in June"),
        (
            "0 9 */2 * 1",
            "at 09:00 on Monday, but only on the 1st to 31st in steps of 2 of the month",
        ),
        ("0 9 1-31 * 5", "at 09:00 every day"),
        ("0 9 1 * 0-6", "at 09:00 every day"),
    ],
)
def test_a_cron_expression_has_its_description(text: str, phrase: str) -> None:
    assert cron(text, "Europe/Oslo").describe() == f"{phrase}, Europe/Oslo"


@pytest.mark.parametrize(
    ("rule", "phrase"),
    [
        (every("90s"), "every 90 seconds"),
        (every(1), "every second"),
        (every(1.5), "every 1.5 seconds"),
        (every(86_400.001), "every 86400.001 seconds"),
        (every("1m"), "every minute"),
        (every("15m"), "every 15 minutes"),
        (every("1h30m"), "every 90 minutes"),
        (every("1h"), "every hour"),
        (every("1d"), "every 24 hours"),
        (every("36h"), "every 36 hours"),
        (every("2w"), "every 14 days"),
        (cron("@every 5m", "Europe/Oslo"), "every 5 minutes"),
        (
            every("1d", datetime(2026, 3, 7, 14, tzinfo=UTC)),
            "every 24 hours from 7 March 2026 at 14:00, UTC",
        ),
        (
            at("2026-11-15T09:00", "America/Vancouver"),
            "once, on 15 November 2026 at 09:00, America/Vancouver",
        ),
        (at("2026-11-15T09:00:05-08:00"), "once, on 15 November 2026 at 17:00:05, UTC"),
        (yearly(11, 15, tz="Asia/Tokyo"), "on 15 November at 09:00, Asia/Tokyo"),
        (
            yearly(2, 29, tz="Asia/Kathmandu"),
            "on 29 February at 09:00 (28 February in other years), Asia/Kathmandu",
        ),
        (yearly(2, 29, feb29="mar1"), "on 29 February at 09:00 (1 March in other years), UTC"),
        (yearly(2, 29, feb29="skip"), "on 29 February at 09:00 (in leap years only), UTC"),
        (yearly(2, 28, feb29="skip"), "on 28 February at 09:00, UTC"),
        (
            cron("0 2 * * *", "Europe/Oslo", "skip"),
            "at 02:00 every day (dropped when the clock skips it), Europe/Oslo",
        ),
        (cron("*/5 * * * *", "Europe/Oslo", "skip"), "every 5 minutes, Europe/Oslo"),
    ],
    ids=str,
)
def test_every_rule_has_its_description(rule: Rule, phrase: str) -> None:
    assert rule.describe() == phrase


def test_different_rules_have_different_descriptions() -> None:
    chance, phrases = random.Random(5), {}
    around = datetime(2026, 3, 29, 2, 30, tzinfo=UTC)
    for turn in range(6_000):
        text = expression(chance, around, by_second=turn % 3 == 0)
        try:
            fields = pattern(text).fields
        except InvalidInput:
            continue
        first, known = phrases.setdefault(of_cron(fields), (text, meaning(fields)))
        assert meaning(fields) == known, f"{first} and {text} are both {of_cron(fields)!r}"
    assert len(phrases) > 2_000


def meaning(fields: Fields) -> tuple[object, ...]:
    """The fields in a normal form: all fields that match every day are equal."""
    month, week = fields.monthdays, fields.weekdays
    every_monthday, every_weekday = len(month.numbers) == 31, len(week.numbers) == 7
    if (every_monthday and every_weekday) or (
        not fields.both and (every_monthday or every_weekday)
    ):
        days: object = "every day"
    elif fields.both and every_monthday:
        days = week
    elif fields.both and every_weekday:
        days = month
    else:
        days = (month, week, fields.both)
    return fields.seconds, fields.minutes, fields.hours, fields.months, days
