"""The flags that every command has, and how a client command opens the store they name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.domain.errors import StoreUnavailable
from duly.stores.sqlite import Sqlite
from duly.stores.store import SqlStore

ACTOR = "cli"
"""Who the audit trail says it was."""
Database = Annotated[
    str | None,
    Parameter(help="Where deliveries are kept: sqlite:///file.db or postgresql://user@host/name."),
]
After = Annotated[str, Parameter(help="The last name of the page before.")]
Why = Annotated[str | None, Parameter(help="Why, for whoever wonders.")]
Json = Annotated[bool, Parameter(negative=(), help="Print one JSON document.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """The flags of every client command."""

    database: Database = None
    namespace: Annotated[str | None, Parameter(help="Whose deliveries.")] = None
    json: Json = False


COMMON = Common()


@asynccontextmanager
async def client(common: Common, *, create: bool = False) -> AsyncIterator[App]:
    """The app over its store, opened beside whatever server runs on it, never owning it.

    With `create`, a store that is missing or behind is made and brought up to date.
    """
    app = app_for(common)
    if not create:
        require_database(app)
    try:
        await app.open(migrate=create)
        yield app
    finally:
        await app.close()


def app_for(common: Common) -> App:
    """The app that the flags describe, not opened yet."""
    return App(common.database, namespace=common.namespace).acting_as(ACTOR)


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
