"""Transactions of other drivers: committed at the end, rolled back on an error."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import django.conf
import django.db.transaction
import psycopg
import psycopg2
import psycopg2.extras
import sqlalchemy
import sqlalchemy.orm
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from duly import Accepted, App

Sql = Callable[[str], Awaitable[None]]
Driver = Callable[[str], AbstractAsyncContextManager[tuple[Any, Sql]]]
TO_PSYCOPG = "postgresql+psycopg"


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection, connection.execute
    finally:
        await connection.close()


@asynccontextmanager
async def by_asyncpg_pool(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection, connection.execute


@asynccontextmanager
async def by_psycopg_async(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    rows: Any = psycopg.rows.dict_row
    connection = await psycopg.AsyncConnection.connect(
        url, row_factory=rows, cursor_factory=psycopg.AsyncRawCursor
    )
    async with connection:
        yield connection, connection.execute  # type: ignore[misc]


@asynccontextmanager
async def by_psycopg(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    rows: Any = psycopg.rows.scalar_row
    with psycopg.connect(url, row_factory=rows, cursor_factory=psycopg.RawCursor) as connection:
        yield connection, plain(connection.execute)


@asynccontextmanager
async def by_psycopg2(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    connection = psycopg2.connect(url, cursor_factory=psycopg2.extras.RealDictCursor)
    try:
        with connection, connection.cursor() as cursor:
            yield connection, plain(cursor.execute)
    finally:
        connection.close()


@asynccontextmanager
async def by_sqlalchemy_session(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    with engine(url, TO_PSYCOPG) as made, sqlalchemy.orm.Session(made) as session, session.begin():
        yield session, plain(lambda sql: session.execute(sqlalchemy.text(sql)))


@asynccontextmanager
async def by_sqlalchemy_scoped(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    with engine(url, "postgresql+psycopg2") as made:
        session = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(made))
        try:
            with session.begin():
                yield session, plain(lambda sql: session.execute(sqlalchemy.text(sql)))
        finally:
            session.remove()


@asynccontextmanager
async def by_sqlalchemy_connection(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    with engine(url, "postgresql+psycopg2") as made, made.begin() as connection:
        yield connection, plain(lambda sql: connection.execute(sqlalchemy.text(sql)))


@asynccontextmanager
async def by_sqlalchemy_async_session(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    async with async_engine(url) as made, AsyncSession(made) as session, session.begin():
        yield session, lambda sql: session.execute(sqlalchemy.text(sql))  # type: ignore[misc]


@asynccontextmanager
async def by_sqlalchemy_async_connection(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    async with async_engine(url) as made, made.begin() as connection:
        yield connection, lambda sql: connection.execute(sqlalchemy.text(sql))  # type: ignore[misc]


@asynccontextmanager
async def by_django(url: str) -> AsyncIterator[tuple[Any, Sql]]:
    with django_connection(url) as connection, django.db.transaction.atomic():
        yield connection, plain(connection.cursor().execute)


ASYNC: dict[str, Driver] = {
    "asyncpg": by_asyncpg,
    "asyncpg-pool": by_asyncpg_pool,
    "psycopg-async": by_psycopg_async,
    "sqlalchemy-async-session": by_sqlalchemy_async_session,
    "sqlalchemy-async-connection": by_sqlalchemy_async_connection,
}
PLAIN: dict[str, Driver] = {
    "psycopg": by_psycopg,
    "psycopg2": by_psycopg2,
    "sqlalchemy-session": by_sqlalchemy_session,
    "sqlalchemy-scoped-session": by_sqlalchemy_scoped,
    "sqlalchemy-connection": by_sqlalchemy_connection,
    "django": by_django,
}


async def deliver_with(
    app: App, name: str, connection: Any, *args: Any, **options: Any
) -> Accepted:
    """Deliver as one does with that driver: awaited, or with the sync function."""
    if name in PLAIN:
        return app.deliver_within(connection, *args, **options)
    return await app.deliver(*args, connection=connection, **options)


def plain(run: Callable[[str], Any]) -> Sql:
    async def execute(sql: str) -> None:
        run(sql)

    return execute


@contextmanager
def engine(url: str, scheme: str) -> Iterator[sqlalchemy.Engine]:
    made = sqlalchemy.create_engine(url.replace("postgresql", scheme, 1))
    try:
        yield made
    finally:
        made.dispose()


@asynccontextmanager
async def async_engine(url: str) -> AsyncIterator[AsyncEngine]:
    made = create_async_engine(url.replace("postgresql", "postgresql+asyncpg", 1))
    try:
        yield made
    finally:
        await made.dispose()


@contextmanager
def django_connection(url: str, backend: str = "postgresql") -> Iterator[Any]:
    """Django's `connection`, for another database."""
    parts = urlsplit(url)
    database = {
        "ENGINE": f"django.db.backends.{backend}",
        "NAME": parts.path.removeprefix("/"),
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }
    if not django.conf.settings.configured:
        django.conf.settings.configure(USE_TZ=True, SECRET_KEY="x", DATABASES={"default": database})
        django.setup()
    django.db.connections.settings["default"].update(database)
    # Django refuses to run in a thread with an event loop, as in these tests.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    try:
        yield django.db.connection
    finally:
        django.db.connection.close()
        del django.db.connections["default"]
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
