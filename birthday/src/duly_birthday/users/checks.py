"""What may be said of a user, checked field by field; all problems are reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Protocol, get_args

import msgspec

from duly_birthday.users.events import Feb29

LONGEST_NAME = 100
EARLIEST_BIRTH = date(1900, 1, 1)
ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
NAMES = {
    "firstName": "first_name",
    "lastName": "last_name",
    "dateOfBirth": "date_of_birth",
    "timezone": "timezone",
    "feb29": "feb29",
}
"""The fields as people write them, and as they are kept."""
REQUIRED = ("firstName", "lastName", "dateOfBirth", "timezone")


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with one field."""

    field: str
    reason: str


class InvalidUser(Exception):
    """What was said of a user cannot be taken; `problems` are all that is wrong with it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{each.field}: {each.reason}" for each in problems))
        self.problems = problems


class Calendar(Protocol):
    """What is known of time zones."""

    def has(self, zone: str) -> bool:
        """Whether there is such a zone."""

    def today(self, zone: str) -> date:
        """Which day it is there."""


def checked(
    given: Mapping[str, object], calendar: Calendar, *, partial: bool = False
) -> dict[str, Any]:
    """The fields as they are kept; InvalidUser with all that is wrong. Some, if `partial`."""
    problems = [Problem(name, "is not a field of a user") for name in given if name not in NAMES]
    kept: dict[str, Any] = {}
    for name, field in NAMES.items():
        if name not in given:
            if name in REQUIRED and not partial:
                problems.append(Problem(name, "is missing"))
            continue
        try:
            kept[field] = CHECKS[name](given[name], calendar)
        except ValueError as error:
            problems.append(Problem(name, str(error)))
    problems += _future(kept, calendar)
    if problems:
        raise InvalidUser(problems)
    return kept


def _future(kept: Mapping[str, Any], calendar: Calendar) -> list[Problem]:
    """Whether somebody is yet to be born, where they live."""
    born, zone = kept.get("date_of_birth"), kept.get("timezone")
    # Without a zone, the day that begins first: nowhere is it later than that.
    if born is None or born <= calendar.today(zone or "Pacific/Kiritimati"):
        return []
    return [Problem("dateOfBirth", f"{born} is in the future")]


def _name(value: object, _calendar: Calendar) -> str:
    name = _text(value).strip()
    if not name:
        raise ValueError("is empty; give at least one letter")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"has {len(name)} characters; at most {LONGEST_NAME} are kept")
    if any(each < " " or each == "\x7f" or "\ud800" <= each <= "\udfff" for each in name):
        raise ValueError("has a character that cannot be shown")
    return name


def _date(value: object, _calendar: Calendar) -> date:
    text = _text(value)
    try:
        born = date.fromisoformat(text) if ISO_DATE.fullmatch(text) else None
    except ValueError:
        raise ValueError(f"{text} is on no calendar") from None
    if born is None:
        raise ValueError("is no date; write it as YYYY-MM-DD")
    if born < EARLIEST_BIRTH:
        raise ValueError(f"{born} is before {EARLIEST_BIRTH}")
    return born


def _zone(value: object, calendar: Calendar) -> str:
    text = _text(value)
    if not calendar.has(text):
        raise ValueError("is no time zone; give an IANA name such as Europe/Oslo")
    return text


def _feb29(value: object, _calendar: Calendar) -> Feb29 | None:
    if value is None:
        return None
    for each in get_args(Feb29):
        if value == each:
            return each  # type: ignore[no-any-return]
    raise ValueError(f"is none of {', '.join(get_args(Feb29))}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    return value


CHECKS: dict[str, Callable[[object, Calendar], Any]] = {
    "firstName": _name,
    "lastName": _name,
    "dateOfBirth": _date,
    "timezone": _zone,
    "feb29": _feb29,
}
