"""Runs one statement on a caller's connection of any supported driver.

A driver is recognized by the modules of its classes, so no driver is imported that is not in use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from duly.errors import InvalidInput

ACCEPT = """
select cast(cast(answer as jsonb) || jsonb_build_object('state',
    case when answer ->> 'id' <> request ->> 'id' then (
        select case when (
            select a.token from duly.agenda a
            where a.lane = coalesce(d.lane, d.id) and a.delivery = d.id
        ) is null then d.state else 'processing' end
        from duly.deliveries d where d.id = cast(answer ->> 'id' as uuid)
    ) end) as text)
from (select cast(cast({} as text) as json) as request) asked, duly.accept(request) as answer"""
"""The state is only read of a known delivery, and not from the view: callers have no rights on it.
"""


class CallerConnection(msgspec.Struct, frozen=True):
    """A type of connection: how a statement runs on it, and the dialect of its database."""

    run: Callable[[Any, str], Any]
    is_async: bool = False
    dialect: Callable[[Any], str] = lambda _: "postgresql"


async def _asyncpg(connection: Any, request: str) -> Any:
    return await connection.fetchval(ACCEPT.format("$1"), request)


async def _psycopg_async(connection: Any, request: str) -> Any:
    # A plain cursor: the caller's may use other placeholders and other row types.
    psycopg = import_module("psycopg")
    async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        await cursor.execute(ACCEPT.format("%s"), (request,))
        return (await cursor.fetchone())[0]


def _psycopg(connection: Any, request: str) -> Any:
    psycopg = import_module("psycopg")
    with psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        return cursor.execute(ACCEPT.format("%s"), (request,)).fetchone()[0]


def _psycopg2(connection: Any, request: str) -> Any:
    plain = import_module("psycopg2.extensions").cursor
    with connection.cursor(cursor_factory=plain) as cursor:
        cursor.execute(ACCEPT.format("%s"), (request,))
        return cursor.fetchone()[0]


async def _sqlalchemy_async(connection: Any, request: str) -> Any:
    statement = import_module("sqlalchemy").text(ACCEPT.format(":request"))
    return (await connection.execute(statement, {"request": request})).scalar_one()


def _sqlalchemy(connection: Any, request: str) -> Any:
    statement = import_module("sqlalchemy").text(ACCEPT.format(":request"))
    return connection.execute(statement, {"request": request}).scalar_one()


def _sqlalchemy_dialect(connection: Any) -> str:
    bind = connection.get_bind() if hasattr(connection, "get_bind") else connection
    return str(bind.dialect.name)


def _django(connection: Any, request: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(ACCEPT.format("%s"), [request])
        return cursor.fetchone()[0]


def _django_dialect(connection: Any) -> str:
    return str(connection.vendor)


ASYNCPG = CallerConnection(_asyncpg, is_async=True)
SQLALCHEMY = CallerConnection(_sqlalchemy, dialect=_sqlalchemy_dialect)
SQLALCHEMY_ASYNC = CallerConnection(_sqlalchemy_async, is_async=True, dialect=_sqlalchemy_dialect)
DJANGO = CallerConnection(_django, dialect=_django_dialect)
CALLERS = {
    ("asyncpg", "Connection"): ASYNCPG,
    ("asyncpg", "PoolConnectionProxy"): ASYNCPG,
    ("psycopg", "AsyncConnection"): CallerConnection(_psycopg_async, is_async=True),
    ("psycopg", "Connection"): CallerConnection(_psycopg),
    ("psycopg2", "connection"): CallerConnection(_psycopg2),
    ("sqlalchemy", "AsyncSession"): SQLALCHEMY_ASYNC,
    ("sqlalchemy", "AsyncConnection"): SQLALCHEMY_ASYNC,
    ("sqlalchemy", "async_scoped_session"): SQLALCHEMY_ASYNC,
    ("sqlalchemy", "Session"): SQLALCHEMY,
    ("sqlalchemy", "Connection"): SQLALCHEMY,
    ("sqlalchemy", "scoped_session"): SQLALCHEMY,
    ("django", "BaseDatabaseWrapper"): DJANGO,
    ("django", "ConnectionProxy"): DJANGO,
}
"""By the package and name of a class; subclasses are found by their base classes."""


def caller_of(connection: Any) -> CallerConnection:
    """How to run a statement on the connection; InvalidInput if its type is not supported."""
    for each in type(connection).__mro__:
        found = CALLERS.get((each.__module__.partition(".")[0], each.__name__))
        if found is not None:
            return _on_postgres(found, connection)
    kind = type(connection)
    raise InvalidInput(
        "connection",
        f"{kind.__module__}.{kind.__qualname__} is not one that duly knows; give a connection of "
        "asyncpg, psycopg or psycopg2, a session or connection of SQLAlchemy, Django's "
        "`connection`, the `tx` of `async with app.transaction() as tx`, or `delivery.transaction`",
    )


def _on_postgres(found: CallerConnection, connection: Any) -> CallerConnection:
    dialect = found.dialect(connection)
    if dialect != "postgresql":
        raise InvalidInput(
            "connection",
            f"it leads to {dialect}, and this app's deliveries are kept in PostgreSQL; give a "
            "connection to the database that the app has",
        )
    return found
