"""What `duly doctor` checks: the database's version, settings, clock and schema."""

from __future__ import annotations

from typing import Any

import apsw

from duly.stores import migrations
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite


async def postgres_facts(database: Postgres) -> dict[str, Any]:
    """Version, settings and schema of a PostgreSQL server."""
    async with database.shared() as connection:
        row = await connection.fetchrow(
            "select current_setting('server_version') as version,"
            " current_setting('fsync') as fsync,"
            " current_setting('full_page_writes') as full_page_writes,"
            " current_setting('synchronous_commit') as synchronous_commit,"
            " clock_timestamp() as clock"
        )
        writable = await connection.fetchrow(migrations.WRITABLE)
    schema = await migrations.status(database)
    problem = migrations.read_only_problem(**writable)
    return {"kind": "postgresql", **dict(row), "read_only": problem, "schema": schema}


async def sqlite_facts(database: Sqlite) -> dict[str, Any]:
    """Version, settings, integrity and schema of an SQLite file."""

    def read(connection: apsw.Connection) -> dict[str, Any]:
        return {
            "journal_mode": connection.pragma("journal_mode"),
            "synchronous": connection.pragma("synchronous"),
            "integrity": connection.pragma("quick_check"),
        }

    facts: dict[str, Any] = await database.write(read)
    schema = await migrations.status(database)
    return {
        "kind": "sqlite",
        "version": apsw.sqlite_lib_version(),
        "path": str(database.path),
        **facts,
        "schema": schema,
    }
