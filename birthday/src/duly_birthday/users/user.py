"""A user, and the events of an edit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import msgspec

from duly_birthday.users.events import (
    Feb29,
    Person,
    UserBirthdayChanged,
    UserEvent,
    UserRenamed,
    UserTimezoneChanged,
)


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A registered user."""

    id: str
    first_name: str
    last_name: str
    date_of_birth: date
    timezone: str
    feb29: Feb29 | None
    created_at: datetime
    updated_at: datetime
    version: int = 1

    def person(self) -> Person:
        """The published data of the user."""
        return Person(
            id=self.id,
            first_name=self.first_name,
            last_name=self.last_name,
            date_of_birth=self.date_of_birth,
            timezone=self.timezone,
            feb29=self.feb29,
            since=self.created_at,
        )


class UserNotFound(Exception):
    """The user does not exist."""

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no user {id}")


class UserChanged(Exception):
    """The user was changed since the caller read it."""

    def __init__(self, user: User, wanted: int) -> None:
        super().__init__(
            f"user {user.id} is at version {user.version}, and not at version {wanted}; "
            "read it again"
        )


CHANGES: tuple[tuple[type[UserEvent], tuple[str, ...]], ...] = (
    (UserBirthdayChanged, ("date_of_birth", "feb29")),
    (UserTimezoneChanged, ("timezone",)),
    (UserRenamed, ("first_name", "last_name")),
)
"""Which event reports which fields."""


def edit(user: User, fields: Mapping[str, Any], now: datetime) -> tuple[User, list[UserEvent]]:
    """The user with those fields, and the events; none if nothing changes."""
    changed = {name for name, value in fields.items() if getattr(user, name) != value}
    if not changed:
        return user, []
    after = msgspec.structs.replace(user, **fields, updated_at=now, version=user.version + 1)
    person = after.person()
    return after, [event(person) for event, names in CHANGES if changed & set(names)]
