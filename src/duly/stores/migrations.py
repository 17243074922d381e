"""Brings a store's schema up to date in numbered steps, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec

from duly.errors import SchemaMismatch, StoreUnavailable
from duly.failpoints import hit, hit_in_thread
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite
from duly.stores.statements import Dialect, Migration, migrations

LOCK = 7_305_809_164_120_291
"""The advisory lock that is held while PostgreSQL's schema is changed; an arbitrary number."""
BOOKS: dict[Dialect, str] = {
    # `create schema if not exists` needs the right to create schemas even if the schema exists.
    "postgres": "do $$ begin if to_regnamespace('duly') is null then create schema duly; end if;"
    " end $$;"
    "create table if not exists duly.migrations (number integer primary key,"
    " name text not null, applied_at timestamptz not null default now());",
    "sqlite": "create table if not exists duly_migrations (number integer primary key,"
    " name text not null, applied_at text not null default current_timestamp);",
}
"""Creates the table of applied steps."""
WRITABLE = (
    "select pg_is_in_recovery() as in_recovery,"
    " current_setting('default_transaction_read_only') as read_only"
)


class Status(msgspec.Struct, frozen=True):
    """The applied and the missing steps of a store's schema."""

    applied: list[int]
    waiting: list[str]

    @property
    def current(self) -> bool:
        """Whether no step is missing."""
        return not self.waiting


async def status(database: Postgres | Sqlite) -> Status:
    """The state of the schema; raises SchemaMismatch if a newer duly created it."""
    steps = migrations("postgres" if isinstance(database, Postgres) else "sqlite")
    applied = await _applied(database)
    _refuse_newer(applied, steps)
    return Status(applied, [_title(each) for each in steps if each.number not in applied])


async def migrate(database: Postgres | Sqlite) -> list[str]:
    """Apply the missing steps, under a lock; returns their titles.

    Raises StoreUnavailable if the server is read-only, even if no step is missing.
    """
    if isinstance(database, Postgres):
        await _refuse_read_only(database)
    if (await status(database)).current:
        return []
    if isinstance(database, Postgres):
        return await _migrate_postgres(database)
    return await _migrate_sqlite(database)


async def require_current(database: Postgres | Sqlite) -> None:
    """Raise SchemaMismatch if a step is missing."""
    schema = await status(database)
    if not schema.current:
        raise SchemaMismatch(
            f"the store lacks {', '.join(schema.waiting)}; run `duly migrate up` first"
        )


def script(dialect: Dialect, step: Migration) -> str:
    """A step as SQL to apply by hand, with its entry in the table of applied steps."""
    table = "duly.migrations" if dialect == "postgres" else "duly_migrations"
    entry = f"insert into {table} (number, name) values ({step.number}, '{step.name}');"
    return f"begin;\n{BOOKS[dialect]}\n{step.text}\n{entry}\ncommit;\n"


async def _refuse_read_only(database: Postgres) -> None:
    async with database.shared() as connection:
        settings = await connection.fetchrow(WRITABLE)
    if problem := read_only_problem(**settings):
        raise StoreUnavailable(f"PostgreSQL is read-only: {problem}", source=database.source)


def read_only_problem(in_recovery: bool, read_only: str) -> str | None:
    """Why a server is read-only, and what to do; None if it is not."""
    if in_recovery:
        return (
            "this server is a replica; name the primary, or all hosts and "
            "target_session_attrs=read-write in the address"
        )
    if read_only == "on":
        return (
            "default_transaction_read_only is on; turn it off for the server, the database or the "
            "role, as with `alter role ROLE set default_transaction_read_only = off`"
        )
    return None


def _refuse_newer(applied: Sequence[int], steps: Sequence[Migration]) -> None:
    newest = max((each.number for each in steps), default=0)
    if applied and applied[-1] > newest:
        raise SchemaMismatch(
            f"the store has schema {applied[-1]} and this duly knows {newest}; "
            "it was made by a newer version: install that one, or use another database"
        )


async def _applied(database: Postgres | Sqlite) -> list[int]:
    if isinstance(database, Postgres):
        async with database.shared() as connection:
            if await connection.fetchval("select to_regclass('duly.migrations')") is None:
                return []
            rows = await connection.fetch("select number from duly.migrations order by number")
            return [row[0] for row in rows]
    found: list[int] = await database.write(
        lambda each: (
            [
                row[0]
                for row in each.execute(
                    "select number from duly_migrations order by number"
                ).fetchall()
            ]
            if each.table_exists(None, "duly_migrations")
            else []
        )
    )
    return found


async def _migrate_postgres(database: Postgres) -> list[str]:
    done = []
    async with database.shared() as connection, connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(BOOKS["postgres"])
        rows = await connection.fetch("select number from duly.migrations")
        applied = {row[0] for row in rows}
        for step in migrations("postgres"):
            if step.number not in applied:
                await connection.execute(step.text)
                await hit("migrate.middle")
                await connection.execute(
                    "insert into duly.migrations values ($1, $2)", step.number, step.name
                )
                done.append(_title(step))
    return done


async def _migrate_sqlite(database: Sqlite) -> list[str]:
    def apply(connection: apsw.Connection, step: Migration) -> None:
        connection.execute(step.text)
        hit_in_thread("migrate.middle")
        connection.execute(
            "insert into duly_migrations (number, name) values (?, ?)", (step.number, step.name)
        )

    def bring_up(connection: apsw.Connection) -> list[str]:
        connection.execute(BOOKS["sqlite"])
        rows = connection.execute("select number from duly_migrations").fetchall()
        applied = {row[0] for row in rows}
        missing = [step for step in migrations("sqlite") if step.number not in applied]
        for step in missing:
            apply(connection, step)
        return [_title(step) for step in missing]

    done: list[str] = await database.write(bring_up)
    return done


def _title(step: Migration) -> str:
    return f"{step.number:04} {step.name.replace('_', ' ')}"
