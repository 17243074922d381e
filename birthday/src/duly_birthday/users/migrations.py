"""The tables of the users context."""

from __future__ import annotations

from importlib.resources import files

from duly_birthday.users.sql import Dialect, Transaction

LOCK = 7_305_809_164_120_292
"""The advisory lock for migrations on PostgreSQL; any number is fine."""
CREATE_TABLE: dict[Dialect, str] = {
    "postgres": f"select pg_advisory_xact_lock({LOCK}); create schema if not exists birthday;"
    "create table if not exists birthday.migrations (name text primary key)",
    "sqlite": "create table if not exists birthday_migrations (name text primary key)",
}
TABLE: dict[Dialect, str] = {
    "postgres": "birthday.migrations",
    "sqlite": "birthday_migrations",
}
"""The table of applied migrations."""


async def migrate(transaction: Transaction, dialect: Dialect) -> None:
    """Apply missing migrations in their order, all or none."""
    await transaction.execute(CREATE_TABLE[dialect])
    table = TABLE[dialect]
    done = {row[0] for row in await transaction.fetch(f"select name from {table}")}
    folder = files(__package__) / "sql" / dialect
    for step in sorted(folder.iterdir(), key=lambda each: each.name):
        if step.name not in done:
            await transaction.execute(step.read_text())
            await transaction.execute(f"insert into {table} (name) values ('{step.name}')")
