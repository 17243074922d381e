"""The statements of the users context, for both databases.

Rows are written as one JSON document, so that the same statement writes one user or a thousand.
Parameters are numbered in the order of their use.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

Dialect = Literal["postgres", "sqlite"]


class Transaction(Protocol):
    """A transaction of the caller."""

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement."""

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""


COLUMNS = (
    *("id", "first_name", "last_name", "date_of_birth", "timezone", "feb29"),
    *("created_at", "updated_at", "version"),
)


class Statements(msgspec.Struct, frozen=True):
    """All statements of the table."""

    add: str
    """Returns the ids of new users."""
    get: str
    lock: str
    """Like `get`, with a lock until the transaction ends."""
    page: str
    change: str
    remove: str


_SHOWN = ", ".join(("cast(id as text)", *COLUMNS[1:]))
_STORED = ", ".join(COLUMNS)
_EDITED = (*COLUMNS[1:6], "updated_at", "version")
_RECORD = (
    "as t(id uuid, first_name text, last_name text, date_of_birth date, timezone text,"
    " feb29 text, created_at timestamptz, updated_at timestamptz, version integer)"
)
_SET = ", ".join(f"{each} = t.{each}" for each in _EDITED)
_SET_JSON = ", ".join(f"{each} = $1 ->> '{each}'" for each in _EDITED)
_READ_JSON = ", ".join(f"value ->> '{each}'" for each in COLUMNS)

SQL: dict[Dialect, Statements] = {
    "postgres": Statements(
        add=f"insert into birthday.users ({_STORED}) select {_STORED}"
        f" from jsonb_to_recordset($1::text::jsonb) {_RECORD}"
        " on conflict do nothing returning cast(id as text)",
        get=f"select {_SHOWN} from birthday.users where id = $1::text::uuid",
        lock=f"select {_SHOWN} from birthday.users where id = $1::text::uuid for update",
        page=f"select {_SHOWN} from birthday.users where id > $1::text::uuid"
        " order by birthday.users.id limit $2",
        change=f"update birthday.users u set {_SET}"
        f" from jsonb_to_record($1::text::jsonb) {_RECORD} where u.id = t.id",
        remove="delete from birthday.users where id = $1::text::uuid",
    ),
    "sqlite": Statements(
        add=f"insert into birthday_users ({_STORED}) select {_READ_JSON} from json_each($1)"
        " where true on conflict do nothing returning id",
        get=f"select {_STORED} from birthday_users where id = $1",
        lock=f"select {_STORED} from birthday_users where id = $1",
        page=f"select {_STORED} from birthday_users where id > $1 order by id limit $2",
        change=f"update birthday_users set {_SET_JSON} where id = $1 ->> 'id'",
        remove="delete from birthday_users where id = $1",
    ),
}
