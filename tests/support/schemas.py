"""Databases with duly's schema: it is created once and copied, which is much faster."""

from __future__ import annotations

import hashlib

import asyncpg

from duly.stores.statements import Dialect, migrations
from duly.stores.store import store_at
from duly.testing import VirtualClock
from tests.support.postgres import DEADLINE_SECONDS, Databases

LOCK = 7_305_809_164_120_292
"""The advisory lock for creating a template; the number has no meaning."""


async def postgres_template(server: Databases) -> str:
    """The name of a template database, created if the server has none; safe to call concurrently.

    It stays on the server, for later tests with the same migrations.
    """
    name = f"duly_template_{mark('postgres')}"
    connection = await asyncpg.connect(server.url(), timeout=DEADLINE_SECONDS)
    try:
        await connection.execute("select pg_advisory_lock($1)", LOCK)
        # Only a complete database gets the name of the template.
        found = "select true from pg_database where datname = $1 and datistemplate"
        if not await connection.fetchval(found, name):
            await server.drop_database(name)
            await bring_up(await server.create_database(name))
            await connection.execute(f'alter database "{name}" is_template true')
    finally:
        await connection.close()
    return name


async def bring_up(url: str) -> None:
    """Apply every migration."""
    store = store_at(url, namespace="default", clock=VirtualClock())
    try:
        await store.open()
    finally:
        await store.close()


def mark(dialect: Dialect) -> str:
    """A hash of the migrations."""
    return hashlib.sha256(repr(migrations(dialect)).encode()).hexdigest()[:16]
