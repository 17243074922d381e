"""The request and response bodies of `/user`."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duly.domain.time.zones import zone
from duly_birthday.greetings.greetings import Greeting
from duly_birthday.users.checks import LONGEST_NAME, Problem
from duly_birthday.users.events import Feb29
from duly_birthday.users.user import User
from duly_birthday.wire import BulkRegistration


class Shape(msgspec.Struct, frozen=True, rename="camel"):
    """A body with names in camel case."""


Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Born = Annotated[date, Meta(description="the date of birth, from 1900-01-01 on")]
Zone = Annotated[str, Meta(description="an IANA time zone", examples=["Europe/Oslo"])]
InOtherYears = Annotated[
    Feb29 | None,
    Meta(description="when a user born on 29 February is greeted in other years"),
]


class NewUser(Shape, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A user to be registered; `users/checks.py` checks it, and reports all problems at once."""

    EXAMPLE: ClassVar = {
        "firstName": "Ann",
        "lastName": "Lee",
        "dateOfBirth": "1990-11-15",
        "timezone": "America/New_York",
    }
    first_name: Annotated[Name, Meta(description="the first name")]
    last_name: Annotated[Name, Meta(description="the last name")]
    date_of_birth: Born
    timezone: Zone
    feb29: InOtherYears = None


class UserChange(Shape, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of a user to change; the others stay as they are."""

    EXAMPLE: ClassVar = {"timezone": "Europe/Oslo"}
    first_name: Annotated[Name, Meta(description="the first name")] | UnsetType = UNSET
    last_name: Annotated[Name, Meta(description="the last name")] | UnsetType = UNSET
    date_of_birth: Born | UnsetType = UNSET
    timezone: Zone | UnsetType = UNSET
    feb29: InOtherYears | UnsetType = UNSET


class UserShape(Shape, frozen=True):
    """A user."""

    id: str
    first_name: str
    last_name: str
    date_of_birth: date
    timezone: str
    created_at: datetime
    updated_at: datetime
    feb29: str | UnsetType = UNSET


class EventShape(Shape, frozen=True):
    """A greeting."""

    id: str
    due_at: datetime
    local_time: Annotated[
        datetime, Meta(tz=False, description="when that is on the user's clock; without an offset")
    ]
    timezone: str
    state: str


class Registered(Shape, frozen=True):
    """The answer to a registration."""

    user: UserShape
    next_birthday_event: EventShape | None


class Shown(Shape, frozen=True):
    """One user with the next and the last greeting."""

    user: UserShape
    next_birthday_event: EventShape | None
    last_birthday_event: EventShape | None


class Edited(Shape, frozen=True):
    """The answer to an edit."""

    user: UserShape
    rescheduled: int
    skipped: int
    skipped_ids: list[str]


class RefusedShape(Shape, frozen=True):
    """A user in a bulk request that was refused."""

    index: int
    details: list[Problem]


class Imported(Shape, frozen=True):
    """The answer to a bulk request."""

    created: int
    ids: list[str]
    refused: list[RefusedShape]


def user_shape(user: User) -> UserShape:
    """The body of a user."""
    return UserShape(
        user.id,
        user.first_name,
        user.last_name,
        user.date_of_birth,
        user.timezone,
        user.created_at,
        user.updated_at,
        user.feb29 or UNSET,
    )


def event_shape(greeting: Greeting | None, user: User) -> EventShape | None:
    """The body of a greeting, with the user's local time."""
    if greeting is None:
        return None
    local = greeting.due_at.astimezone(zone(user.timezone)).replace(tzinfo=None)
    return EventShape(greeting.id, greeting.due_at, local, user.timezone, greeting.state)


def imported_shape(result: BulkRegistration) -> Imported:
    """The body of the result of a bulk request."""
    refused = [RefusedShape(each.index, each.problems) for each in result.refused]
    return Imported(len(result.ids), result.ids, refused)
