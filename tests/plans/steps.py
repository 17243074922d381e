"""Query plans of statements, as the store explains them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import apsw
import asyncpg

from duly.stores.statements import statements


def sqlite_steps(url: str, name: str, **given: Any) -> list[str]:
    """The steps of all parts of a statement, on an empty file with the schema."""
    statement = statements("sqlite")[name]
    bound = dict.fromkeys(statement.parameters, 1) | given
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    try:
        return [
            row[-1]
            # One by one: of several statements only the first would be explained, and the rest run.
            for part in filter(str.strip, statement.text.split(";"))
            for row in connection.execute(f"explain query plan {part}", bound)
        ]
    finally:
        connection.close()


@asynccontextmanager
async def filled_with(url: str, sql: str) -> AsyncIterator[Any]:
    """A connection to a store that was filled with the SQL."""
    opened = await asyncpg.connect(url)
    await opened.execute(sql)
    yield opened
    await opened.close()


async def postgres_plan(connection: Any, name: str, known: Mapping[str, str], mode: str) -> str:
    """The plan of a prepared statement, for these values or generic."""
    statement = statements("postgres")[name]
    given = ", ".join(known[each] for each in statement.parameters)
    await connection.execute(f"set plan_cache_mode = {mode}; prepare it as {statement.text}")
    rows = await connection.fetch(f"explain execute it({given})")
    await connection.execute("deallocate it")
    return "\n".join(row[0] for row in rows)
