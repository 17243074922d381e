"""The phrases of which a sentence about times consists, as regular expressions.

Between them they leave no choice: at any place of any sentence at most one of them matches.
"""

from __future__ import annotations

import re

from duly.domain.time.descriptions import MONTHS, PLACES, WEEKDAYS

UNITS = ("second", "minute", "hour")
UNIT = "|".join(UNITS)
WHOLE = {"second": 60, "minute": 60, "hour": 24}
COUNTS = {"once": 1, "twice": 2, "three": 3, "four": 4, "five": 5, "six": 6}
PERIODS = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}


def _one_of(words: list[str]) -> str:
    return f"(?:{'|'.join(words)})"


def _list(item: str) -> str:
    return rf"{item}(?:(?:, and |, | and ){item})*"


CLOCK = r"(?:\d{1,2}(?::\d\d){0,2}(?:am|pm)?|noon|midnight)"
PLAIN_CLOCK = r"(?:\d{1,2}(?::\d\d){0,2}(?:am|pm)|\d{1,2}(?::\d\d){1,2}|noon|midnight)"
"""A time that is one without `at` before it."""
MONTH = _one_of([f"{name[:3].lower()}(?:{name[3:].lower()})?" for name in MONTHS])
# "sept", "tues" and "thurs" are usual too, and plurals of weekdays.
MONTH = MONTH.replace("sep(?:tember)?", "sept?(?:ember)?") + r"\b"
WEEKDAY = rf"(?:(?:sun|mon|tue|tues|wed|thu|thur|thurs|fri|sat|{'|'.join(WEEKDAYS).lower()})s?\b)"
ORDINAL = rf"(?:\d{{1,2}}(?:st|nd|rd|th)|{'|'.join(PLACES)})"
OF_MONTH = "of (?:the|every|a) month"

SERIES = r"\d+(?: to \d+(?: in steps of \d+)?|(?:(?:, and |, | and )\d+)*)"
# "every second Monday" and "every second weekend" are no intervals.
SECONDLY = r"second(?=$|,| (?:of|on|from|between|in|every|at)\b)"
EVERY = rf"every (?:{SECONDLY}|minute|hour|(?:\d+ |other )(?:{UNIT})s?)"
PART = rf"(?:{EVERY}|(?:{UNIT})s? {SERIES})"

ORDINALS = rf"{ORDINAL}(?: to {ORDINAL}(?: in steps of \d+)?|(?:(?:, and |, | and ){ORDINAL})*)"
DATE = rf"(?:\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{MONTH}|{MONTH} \d{{1,2}}(?:st|nd|rd|th)?)"
KINDS_OF_DAY = {
    "date": rf"(?:the )?{DATE}",
    "nth": rf"(?:the )?(?:last|{_list(ORDINAL)}) {WEEKDAY} {OF_MONTH}",
    "last_workday": rf"(?:the )?last day from monday to friday {OF_MONTH}",
    "last_day": rf"(?:the )?last day {OF_MONTH}",
    "monthday": rf"(?:the )?{ORDINALS}(?: day)? {OF_MONTH}"
    rf"|the {ORDINALS}(?! (?:of|day|{WEEKDAY})\b)",
    "weekday": rf"{WEEKDAY}(?: to {WEEKDAY})?",
    "weekdays": "weekdays?",
    "weekend": "weekends?",
}
DAY = _one_of(list(KINDS_OF_DAY.values()))
DAYS = _list(DAY)

PHRASES = {
    name: re.compile(rf"(?:{phrase})(?=$|[ ,])")
    for name, phrase in {
        "times": rf"(?:at {_list(CLOCK)}|{_list(PLAIN_CLOCK)})",
        "numbers": rf"(?:at )?(?P<parts>{PART}(?: of {PART})*)"
        r"(?: at (?:minute |:)(?P<past>\d{1,2}))?",
        "window": rf"from (?P<start>{CLOCK}) to (?P<end>{CLOCK})"
        rf"|between (?P<first>{CLOCK}) and (?P<last>{CLOCK})",
        # "every third day of the month" may mean every three days.
        "days": rf"(?:on |every (?!second of |(?!first|1st){ORDINAL} day ))?(?P<days>{DAYS})"
        rf"(?:, (?P<how>but only|and also) on (?P<more>{DAYS}))?",
        "period": r"every (?P<period>day|week|month|year)|daily|weekly|monthly|yearly",
        "once": r"once a (?P<once>day|week|month|year)",
        "count": rf"(?:twice|(?P<count>\d|{'|'.join(list(COUNTS)[2:])}) times) (?:a|every) day",
        "months": rf"(?:only )?(?:(?:in|every) (?P<months>{_list(MONTH)})"
        rf"|from (?P<from>{MONTH}) to (?P<to>{MONTH}))",
    }.items()
}
