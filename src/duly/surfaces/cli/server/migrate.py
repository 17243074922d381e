"""`duly migrate`: show, apply or print the migrations of the store's schema."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from cyclopts import App, Parameter

from duly.errors import InvalidInput
from duly.stores import migrations
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite
from duly.stores.statements import Dialect, Migration
from duly.stores.statements import migrations as all_steps
from duly.surfaces.cli.terminal.flags import (
    COMMON,
    Common,
    database_of,
    require_database,
    store_app,
)
from duly.surfaces.cli.terminal.output import answer, items, print_message

commands = App(name="migrate", help="Manage the store's schema: up, status, sql.")


@commands.command
async def up(*, common: Common = COMMON) -> None:
    """Apply all migrations that are not applied yet."""
    async with schema_of(common, create=True) as database:
        applied = await migrations.migrate(database)
    answer(
        common.json,
        {"applied": applied},
        lambda: "\n".join(f"applied {each}" for each in applied) or "the schema is up to date",
    )


@commands.command
async def status(*, common: Common = COMMON) -> None:
    """Show which migrations are applied, and which are not."""
    async with schema_of(common) as database:
        found = await migrations.status(database)
    document = {"applied": found.applied, "waiting": found.waiting, "current": found.current}
    answer(common.json, document, lambda: _text(found))


@commands.command
async def sql(
    *,
    all: Annotated[bool, Parameter(negative=(), help="All migrations, applied or not.")] = False,
    common: Common = COMMON,
) -> None:
    """Print the SQL that `up` would run."""
    steps = await _steps(common, every=all)
    dialect = _dialect(common)
    if not steps:
        print_message("nothing to apply")
    scripts = [migrations.script(dialect, step) for step in steps]
    rows = [
        {"number": step.number, "name": step.name, "sql": script}
        for step, script in zip(steps, scripts, strict=True)
    ]
    answer(common.json, items(rows), lambda: "\n".join(scripts).rstrip())


@asynccontextmanager
async def schema_of(common: Common, *, create: bool = False) -> AsyncIterator[Postgres | Sqlite]:
    """The database, opened without migrating it or checking its schema."""
    app = store_app(common)
    database = database_of(app)
    if not isinstance(database, Postgres | Sqlite):
        raise InvalidInput("database", "duly does not own its schema")
    if not create:
        require_database(app)
    try:
        if isinstance(database, Sqlite):
            await database.open()
        yield database
    finally:
        await app.close()


async def _steps(common: Common, *, every: bool) -> list[Migration]:
    steps = list(all_steps(_dialect(common)))
    if every:
        return steps
    async with schema_of(common) as database:
        found = await migrations.status(database)
    return [step for step in steps if step.number not in found.applied]


def _dialect(common: Common) -> Dialect:
    return "sqlite" if store_app(common).store.single_owner else "postgres"


def _text(found: migrations.Status) -> str:
    lines = [f"schema {found.applied[-1]}" if found.applied else "no schema yet"]
    lines += [f"waiting {each}" for each in found.waiting]
    return "\n".join(lines if found.waiting else [*lines, "up to date"])
