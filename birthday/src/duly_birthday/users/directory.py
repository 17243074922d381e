"""The directory of users: stored in their own table, changed in the caller's transactions.

Every change returns its events; their consequences are not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from duly_birthday.users.events import UserEvent, UserRegistered, UserRemoved
from duly_birthday.users.sql import COLUMNS, SQL, Dialect, Transaction
from duly_birthday.users.user import User, UserChanged, UserNotFound, edit

BEFORE_ALL = "00000000-0000-0000-0000-000000000000"
Fields = Mapping[str, Any]


class Directory:
    """The users in one database."""

    def __init__(
        self, dialect: Dialect, now: Callable[[], datetime], new_id: Callable[[], str]
    ) -> None:
        self._sql = SQL[dialect]
        self._now = now
        self._new_id = new_id

    async def register(
        self, transaction: Transaction, people: Sequence[Fields]
    ) -> tuple[list[User], list[UserEvent]]:
        """Add users; one with an `id` that exists is not added again.

        The fields have been checked. Returns the new users.
        """
        users = [self._new(fields) for fields in people]
        rows = await transaction.fetch(self._sql.add, _json(users))
        added = {row[0] for row in rows}
        new = [each for each in users if each.id in added]
        return new, [UserRegistered(each.person()) for each in new]

    def _new(self, fields: Fields) -> User:
        now = self._now()
        known = {"id": self._new_id(), "feb29": None} | dict(fields)
        return User(**known, created_at=now, updated_at=now)

    async def get(self, transaction: Transaction, id: str) -> User:
        """One user, or UserNotFound."""
        return _one(await transaction.fetch(self._sql.get, id), id)

    async def page(self, transaction: Transaction, after: str | None, limit: int) -> list[User]:
        """Users by id; `after` is the last id of the previous page."""
        rows = await transaction.fetch(self._sql.page, after or BEFORE_ALL, limit)
        return [_user(row) for row in rows]

    async def edit(
        self, transaction: Transaction, id: str, fields: Fields, version: int | None
    ) -> tuple[User, list[UserEvent]]:
        """Change some fields; UserChanged if the user is not at the given version."""
        user = _one(await transaction.fetch(self._sql.lock, id), id)
        if version is not None and version != user.version:
            raise UserChanged(user, version)
        after, events = edit(user, fields, self._now())
        if events:
            await transaction.execute(self._sql.change, _json(after))
        return after, events

    async def remove(self, transaction: Transaction, id: str) -> list[UserEvent]:
        """Delete a user, or UserNotFound."""
        user = _one(await transaction.fetch(self._sql.lock, id), id)
        await transaction.execute(self._sql.remove, id)
        return [UserRemoved(user.person())]


def _one(rows: Sequence[Sequence[Any]], id: str) -> User:
    if not rows:
        raise UserNotFound(id)
    return _user(rows[0])


def _user(row: Sequence[Any]) -> User:
    return msgspec.convert(dict(zip(COLUMNS, row, strict=True)), User)


def _json(value: User | list[User]) -> str:
    return msgspec.json.encode(value).decode()
