"""What the doctor looks at: the server's version, its settings, its clock, the schema."""

from __future__ import annotations

from typing import Any

import apsw

from duly.stores import migrations
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite


async def postgres_facts(database: Postgres) -> dict[str, Any]:
    """What a PostgreSQL server says of itself."""
    async with database.shared() as connection:
        row = await connection.fetchrow(
            "select current_setting('server_version') as version,"
            " current_setting('fsync') as fsync,"
            " current_setting('full_page_writes') as full_page_writes,"
            " current_setting('synchronous_commit') as synchronous_commit,"
            " clock_timestamp() as clock"
        )
        writable = await connection.fetchrow(migrations.WRITABLE)
    found = await migrations.status(database)
    problem = migrations.read_only_problem(**writable)
    return {"kind": "postgresql", **dict(row), "read_only": problem, "schema": found}


async def sqlite_facts(database: Sqlite) -> dict[str, Any]:
    """What SQLite and its file say of themselves."""

    def look(connection: apsw.Connection) -> dict[str, Any]:
        return {
            "journal_mode": connection.pragma("journal_mode"),
            "synchronous": connection.pragma("synchronous"),
            "integrity": connection.pragma("quick_check"),
        }

    facts: dict[str, Any] = await database.write(look)
    found = await migrations.status(database)
    return {
        "kind": "sqlite",
        "version": apsw.sqlite_lib_version(),
        "path": str(database.path),
        **facts,
        "schema": found,
    }
