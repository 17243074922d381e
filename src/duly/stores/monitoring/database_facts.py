"""What `duly doctor` checks: the database's version, settings, clock and schema."""

from __future__ import annotations

from typing import Any

import apsw

from duly.ports import StoreSizes
from duly.stores import migrations
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite

# Null before the first migration.
SIZES = (
    "select pg_table_size(to_regclass('duly.agenda')) as agenda_bytes,"
    " pg_indexes_size(to_regclass('duly.agenda')) as agenda_index_bytes"
)


async def postgres_facts(database: Postgres) -> dict[str, Any]:
    """Version, settings and schema of a PostgreSQL server."""
    async with database.shared() as connection:
        row = await connection.fetchrow(
            "select current_setting('server_version') as version,"
            " current_setting('fsync') as fsync,"
            " current_setting('full_page_writes') as full_page_writes,"
            " current_setting('synchronous_commit') as synchronous_commit,"
            " clock_timestamp() as clock,"
            " (select setting::integer from pg_settings where name = 'autovacuum_naptime')"
            "     as autovacuum_naptime,"
            " (select count(*) from pg_database where datallowconn and not datistemplate"
            "     and datname not in ('postgres', current_database())) as other_databases"
        )
        sizes = await connection.fetchrow(SIZES)
        writable = await connection.fetchrow(migrations.WRITABLE)
    schema = await migrations.status(database)
    problem = migrations.read_only_problem(**writable)
    return {
        "kind": "postgresql",
        **dict(row),
        **dict(sizes),
        "read_only": problem,
        "schema": schema,
    }


async def postgres_sizes(database: Postgres) -> StoreSizes:
    """How large the agenda is on the server's disk."""
    async with database.shared() as connection:
        row = await connection.fetchrow(SIZES)
    return StoreSizes(**row)


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
