"""The events of the users context: the only part of it that others may use."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

import msgspec

Feb29 = Literal["feb28", "mar1", "skip"]
"""The birthday of users born on 29 February in other years."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """The published data of a user."""

    id: str
    first_name: str
    last_name: str
    date_of_birth: date
    timezone: str
    feb29: Feb29 | None
    since: datetime


class UserEvent(msgspec.Struct, frozen=True):
    """An event of a user; `person` is the user after it."""

    person: Person


class UserRegistered(UserEvent, frozen=True):
    """A user was registered."""


class UserBirthdayChanged(UserEvent, frozen=True):
    """The date of birth, or the day for a 29 February, was changed."""


class UserTimezoneChanged(UserEvent, frozen=True):
    """The time zone was changed."""


class UserRenamed(UserEvent, frozen=True):
    """The name was changed."""


class UserRemoved(UserEvent, frozen=True):
    """A user was removed; `person` is the user before."""
