"""The flags that all commands share, and the store or server that they select."""

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
"""The actor in the audit trail."""
Database = Annotated[
    str | None,
    Parameter(help="The database: sqlite:///file.db or postgresql://user@host/name."),
]
Server = Annotated[
    str | None,
    Parameter(help="Use this server instead, as in http://host:8787; its key is in DULY_KEY."),
]
After = Annotated[str, Parameter(help="The last name of the previous page.")]
Why = Annotated[str | None, Parameter(help="The reason; it is stored and shown later.")]
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


Backend = App | Client
"""What the commands use: the store itself, or a server."""


@asynccontextmanager
async def backend(common: Common, *, create: bool = False) -> AsyncIterator[Backend]:
    """Connect to the server in the flags or settings, or open the store."""
    settings = server_settings(common)
    if settings is not None:
        async with Client(settings.server, key=settings.key) as server:
            yield server
        return
    async with _opened(app_for(common), create=create) as app:
        yield app


@asynccontextmanager
async def client(common: Common, *, create: bool = False) -> AsyncIterator[App]:
    """An app with its store open; a server may use the same store.

    With `create`, a missing store is created, and its schema migrated.
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
    """The settings if they name a server; None to use the store.

    The flag --database overrides a server in the settings.
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
            "namespace", "with a server it is the namespace of the key; leave it out"
        )
    return settings


def store_app(common: Common) -> App:
    """The app of a command that needs the store; InvalidInput if a server is set."""
    settings = server_settings(common)
    if settings is not None:
        raise InvalidInput(
            "server",
            f"this command needs the store and cannot use the server {shown_url(settings.server)}; "
            "give --database",
        )
    return app_for(common)


def app_for(common: Common) -> App:
    """The app with the settings in the flags, not opened yet."""
    return App(common.database, actor=ACTOR, namespace=common.namespace, server=common.server)


def require_database(app: App) -> None:
    """StoreUnavailable if the SQLite file does not exist: opening would create it."""
    database = database_of(app)
    if isinstance(database, Sqlite) and not database.path.exists():
        raise StoreUnavailable(
            f"there is no database at {database.path}; `duly serve` or `duly migrate up` creates "
            "one, --database selects another"
        )


def database_of(app: App) -> object:
    """The database of the app's store."""
    return app.store.database if isinstance(app.store, SqlStore) else None
