"""Parses cron expressions; an error names the wrong field.

Five fields (minute, hour, day of month, month, day of week), or six with the second first. A field
is a list of `*`, numbers, names (`MON`, `JAN`), ranges and steps: `*/15`, `8-18/2`, and `5/15`,
which continues to the maximum of the field. A descending range is refused, except that a week may
end on `SUN`: `FRI-SUN`. Days of the month also allow `L` and `LW`, weekdays `5L` and `5#2`; 0 and 7
are Sunday. A day must match both day fields if either starts with `*`, else one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple, NoReturn

from duly.domain.time.cron_patterns import Days, Fields, Monthdays, Pattern, Weekdays
from duly.errors import InvalidInput, quoted

LONGEST_EXPRESSION = 1000
FIFTY_YEARS = 50 * 366
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class Field(NamedTuple):
    """A field's name and its range of numbers; `*` means `least` to `whole`."""

    name: str
    least: int
    most: int
    whole: int
    names: tuple[str, ...] = ()

    def refuse(self, problem: str) -> NoReturn:
        """Raise InvalidInput for this field."""
        raise InvalidInput(self.name, problem)


SECOND = Field("second", 0, 59, 59)
MINUTE = Field("minute", 0, 59, 59)
HOUR = Field("hour", 0, 23, 23)
MONTHDAY = Field("day of month", 1, 31, 31)
MONTH = Field("month", 1, 12, 12, MONTH_NAMES)
WEEKDAY = Field("day of week", 0, 7, 6, WEEKDAY_NAMES)


def normal(expression: object) -> str:
    """The expression in normal form: upper case, single spaces, aliases replaced."""
    if not isinstance(expression, str) or not expression.isascii():
        raise InvalidInput(
            "expression", f"{quoted(expression)} is not a cron expression; {_REMEDY}"
        )
    if len(expression) > LONGEST_EXPRESSION:
        raise InvalidInput("expression", f"it is longer than {LONGEST_EXPRESSION} characters")
    text = " ".join(expression.split())
    if text.startswith("@"):
        return _resolved_alias(text)
    return text.upper()


def _resolved_alias(alias: str) -> str:
    fields = ALIASES.get(alias.lower())
    if fields is None:
        known = ", ".join((*ALIASES, "@every 90s"))
        raise InvalidInput("expression", f"{quoted(alias)} is not known; take one of {known}")
    return fields


@lru_cache(maxsize=4096)
def pattern(expression: str) -> Pattern:
    """The pattern of an expression in normal form; one that never matches is refused."""
    texts = expression.split()
    if len(texts) not in (5, 6):
        raise InvalidInput("expression", f"{quoted(expression)} has {len(texts)} fields; {_REMEDY}")
    fields = _fields(*texts) if len(texts) == 6 else _fields("0", *texts)
    if Days(fields).next(0) > FIFTY_YEARS:
        raise InvalidInput(
            "expression",
            f"{quoted(expression)} names no day in 50 years; look at its days and its month",
        )
    return Pattern(fields)


_REMEDY = (
    "give 5 fields (minute, hour, day of month, month, day of week), "
    "or 6 with the second before them"
)


def _fields(second: str, minute: str, hour: str, monthday: str, month: str, weekday: str) -> Fields:
    return Fields(
        seconds=_numbers(SECOND, second),
        minutes=_numbers(MINUTE, minute),
        hours=_numbers(HOUR, hour),
        monthdays=_monthdays(monthday),
        months=_numbers(MONTH, month),
        weekdays=_weekdays(weekday),
        both=monthday.startswith("*") or weekday.startswith("*"),
        is_fixed=not any(each.startswith("*") for each in (second, minute, hour)),
    )


def _monthdays(text: str) -> Monthdays:
    plain, special = _split_special(text, lambda item: item in ("L", "LW"))
    return Monthdays(_all(MONTHDAY, plain), last="L" in special, last_workday="LW" in special)


def _weekdays(text: str) -> Weekdays:
    plain, special = _split_special(text, lambda item: item.endswith("L") or "#" in item)
    lasts = {_last_weekday(item) for item in special if "#" not in item}
    nths = {_nth_weekday(item) for item in special if "#" in item}
    numbers = {number % 7 for number in _all(WEEKDAY, plain)}
    return Weekdays(tuple(sorted(numbers)), tuple(sorted(lasts)), tuple(sorted(nths)))


def _split_special(text: str, is_special: Callable[[str], bool]) -> tuple[list[str], list[str]]:
    items = text.split(",")
    special = [item for item in items if is_special(item)]
    return [item for item in items if item not in special], special


def _last_weekday(item: str) -> int:
    if item == "L":
        WEEKDAY.refuse("L needs a weekday before it, as in 5L for the last Friday")
    return _number(WEEKDAY, item[:-1]) % 7


def _nth_weekday(item: str) -> tuple[int, int]:
    weekday, _, place = item.partition("#")
    if place not in ("1", "2", "3", "4", "5"):
        WEEKDAY.refuse(f"{quoted(item)} needs a number from 1 to 5 after #, as in 1#2")
    return _number(WEEKDAY, weekday) % 7, int(place)


def _numbers(field: Field, text: str) -> tuple[int, ...]:
    return _all(field, text.split(","))


def _all(field: Field, items: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted({number for item in items for number in _range(field, item)}))


def _range(field: Field, item: str) -> range:
    """The numbers of one item of the list: `*`, `5`, `5-9`, each with or without a step."""
    bounds, slash, step = item.partition("/")
    if bounds == "*":
        first, last = field.least, field.whole
    elif "-" in bounds:
        first, last = _bounds(field, bounds)
    else:
        first = _number(field, bounds)
        last = field.most if slash else first
    return range(first, last + 1, _step(field, step) if slash else 1)


def _bounds(field: Field, text: str) -> tuple[int, int]:
    start, _, end = text.partition("-")
    first, last = _number(field, start), _number(field, end)
    if field is WEEKDAY and end == "SUN" and first:
        last = 7
    if first > last:
        field.refuse(
            f"the range {text} runs backwards; "
            f"write {start}-{field.whole},{field.least}-{end} if that is meant"
        )
    return first, last


def _number(field: Field, text: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.least
    if not text.isdigit():
        field.refuse(f"{quoted(text)} is no {_choices(field)}")
    number = int(text)
    if not field.least <= number <= field.most:
        field.refuse(f"{number} is outside {field.least}-{field.most}")
    return number


def _choices(field: Field) -> str:
    numbers = f"number from {field.least} to {field.most}"
    return f"{numbers} nor a name such as {field.names[1]}" if field.names else numbers


def _step(field: Field, text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        field.refuse(f"the step {quoted(text)} is no whole number from 1 on")
    if int(text) > field.whole - field.least + 1:
        # Only the first number would ever match, which cannot be what was meant.
        field.refuse(f"the step {text} is longer than the whole of {field.least}-{field.whole}")
    return int(text)
