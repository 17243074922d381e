"""Checks the fields of a user; all problems are reported at once."""

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
"""The names of the fields in requests, and in the table."""
REQUIRED = ("firstName", "lastName", "dateOfBirth", "timezone")


class Problem(msgspec.Struct, frozen=True):
    """The problem of one field."""

    field: str
    reason: str


class InvalidUser(Exception):
    """The fields of a user are not valid; `problems` has all their problems."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{each.field}: {each.reason}" for each in problems))
        self.problems = problems


class Calendar(Protocol):
    """Time zones and their local dates."""

    def has(self, zone: str) -> bool:
        """Whether the zone exists."""

    def today(self, zone: str) -> date:
        """The current date in the zone."""


def checked(
    given: Mapping[str, object], calendar: Calendar, *, partial: bool = False
) -> dict[str, Any]:
    """The checked fields by column; with `partial` some may be missing. InvalidUser otherwise."""
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
    """The problem of a date of birth in the future, in the user's zone."""
    born, zone = kept.get("date_of_birth"), kept.get("timezone")
    # Without a valid zone, the zone in which each day begins first.
    if born is None or born <= calendar.today(zone or "Pacific/Kiritimati"):
        return []
    return [Problem("dateOfBirth", f"{born} is in the future")]


def _name(value: object, _calendar: Calendar) -> str:
    name = _text(value).strip()
    if not name:
        raise ValueError("is empty; give at least one letter")
    if len(name) > LONGEST_NAME:
        raise ValueError(f"has {len(name)} characters; give at most {LONGEST_NAME}")
    if any(each < " " or each == "\x7f" or "\ud800" <= each <= "\udfff" for each in name):
        raise ValueError("has a control character")
    return name


def _date(value: object, _calendar: Calendar) -> date:
    text = _text(value)
    try:
        born = date.fromisoformat(text) if ISO_DATE.fullmatch(text) else None
    except ValueError:
        raise ValueError(f"{text} does not exist") from None
    if born is None:
        raise ValueError("is not a date; write it as YYYY-MM-DD")
    if born < EARLIEST_BIRTH:
        raise ValueError(f"{born} is before {EARLIEST_BIRTH}")
    return born


def _zone(value: object, calendar: Calendar) -> str:
    text = _text(value)
    if not calendar.has(text):
        raise ValueError("is not a time zone; give an IANA name such as Europe/Oslo")
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
        raise ValueError("is not text")
    return value


CHECKS: dict[str, Callable[[object, Calendar], Any]] = {
    "firstName": _name,
    "lastName": _name,
    "dateOfBirth": _date,
    "timezone": _zone,
    "feb29": _feb29,
}
