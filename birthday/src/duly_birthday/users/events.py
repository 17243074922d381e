"""What the users context publishes: the only part of it that others may know."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

import msgspec

Feb29 = Literal["feb28", "mar1", "skip"]
"""What somebody born on 29 February does in other years."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A user as others see one."""

    id: str
    first_name: str
    last_name: str
    date_of_birth: date
    timezone: str
    feb29: Feb29 | None
    since: datetime


class UserEvent(msgspec.Struct, frozen=True):
    """Something that happened to a user; `person` is who it is now."""

    person: Person


class UserRegistered(UserEvent, frozen=True):
    """There is somebody new."""


class UserBirthdayChanged(UserEvent, frozen=True):
    """Another date of birth, or another day for a 29 February."""


class UserTimezoneChanged(UserEvent, frozen=True):
    """Somebody lives by another clock."""


class UserRenamed(UserEvent, frozen=True):
    """Somebody is called something else."""


class UserRemoved(UserEvent, frozen=True):
    """Somebody is gone; `person` is who it was."""
