"""The flags that every command has, and how a client command opens the books that they name."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.client.client import Client
from duly.errors import InvalidInput, StoreUnavailable
from duly.safe_text import shown_url
from duly.settings import Settings, load
from duly.stores.sqlite.database import Sqlite
from duly.stores.store import SqlStore

ACTOR = "cli"
"""Who the audit trail says it was."""
Database = Annotated[
    str | None,
    Parameter(help="Where deliveries are kept: sqlite:///file.db or postgresql://user@host/name."),
]
Server = Annotated[
    str | None,
    Parameter(
        help="The server to go through instead, as in http://host:8787; its key is in DULY_KEY."
    ),
]
After = Annotated[str, Parameter(help="The last name of the page before.")]
Why = Annotated[str | None, Parameter(help="Why, for whoever wonders.")]
Json = Annotated[bool, Parameter(negative=(), help="Print one JSON document.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """The flags of every client command."""

    database: Database = None
    namespace: Annotated[str | None, Parameter(help="The namespace.")] = None
    server: Server = None
    json: Json = False


COMMON = Common()


Books = App | Client
"""What the commands work on: the store itself, or a server in front of it."""


@asynccontextmanager
async def books(common: Common, *, create: bool = False) -> AsyncIterator[Books]:
    """The server that is named, or the store."""
    settings = server_settings(common)
    if settings is not None:
        async with Client(settings.server, key=settings.key) as server:
            yield server
        return
    async with _opened(app_for(common), create=create) as app:
        yield app


@asynccontextmanager
async def client(common: Common, *, create: bool = False) -> AsyncIterator[App]:
    """The app over its store, opened beside a server that may run on it, never owning it.

    With `create`, a store that is missing or behind is made and brought up to date.
    """
    async with _opened(store_app(common), create=create) as app:
        yield app


@asynccontextmanager
async def _opened(app: App, *, create: bool) -> AsyncIterator[App]:
    if not create:
        require_database(app)
    try:
        await app.open(migrate=create)
        yield app
    finally:
        await app.close()


def server_settings(common: Common) -> Settings | None:
    """The settings that name a server; None when it is the store that is meant.

    Nothing is guessed: a server counts that is named, unless a flag names the database.
    """
    if common.server and common.database is not None:
        raise InvalidInput("server", "give it or --database, not both")
    if common.database is not None:
        return None
    settings = load({"server": common.server}, os.environ)
    if not settings.server:
        return None
    if common.namespace is not None:
        raise InvalidInput(
            "namespace", "through a server it is the one that its key is for; leave it out"
        )
    return settings


def store_app(common: Common) -> App:
    """The app for what only the store itself can do; a server that is named is refused."""
    settings = server_settings(common)
    if settings is not None:
        raise InvalidInput(
            "server",
            f"this needs the store, and cannot be done through {shown_url(settings.server)}; "
            "name the store with --database",
        )
    return app_for(common)


def app_for(common: Common) -> App:
    """The app that the flags describe, not opened yet."""
    return App(common.database, actor=ACTOR, namespace=common.namespace, server=common.server)


def require_database(app: App) -> None:
    """Refuse a SQLite file that is not there: opening it would make it."""
    database = database_of(app)
    if isinstance(database, Sqlite) and not database.path.exists():
        raise StoreUnavailable(
            f"there is no database at {database.path}; `duly serve` or `duly migrate up` makes "
            "one, --database names another"
        )


def database_of(app: App) -> object:
    """The database under the app's store."""
    return app.store.database if isinstance(app.store, SqlStore) else None
