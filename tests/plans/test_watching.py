"""The plans of what is asked every second: by indexes, whatever the ledger has grown to."""

from __future__ import annotations

from typing import Any

import apsw
import asyncpg
import pytest

import duly
from duly.stores.statements import statements

pytestmark = pytest.mark.requirement("S3", "D5")
GIVEN = {
    "namespace": "'default'",
    "grace": "60",
    "most": "50000",
    "now": "null",
    "since_at": "now() - interval '1 hour'",
    "until_at": "now()",
    "step": "60",
}
NAMES = ("situations.backlog", "situations.circuits", "rollups.series", "alerts.raised")
GROWING = ("agenda", "deliveries", "rollups", "alerts")
FILL = """
insert into duly.targets (namespace, name)
select 'default', 'https://host' || n from generate_series(1, 5000) n;
insert into duly.gates (target) select n from generate_series(1, 5000) n;
insert into duly.deliveries (id, target, priority, namespace, due_at, accepted_at, payload)
select gen_random_uuid(), 1 + n % 5, 5, 'default', now() + n * interval '1 second', now(), '1'
from generate_series(1, 40000) n;
insert into duly.agenda (lane, delivery, target, priority, due_at)
select id, id, target, priority, due_at from duly.deliveries;
insert into duly.claims (token, lanes)
select 1, array(select lane from duly.agenda limit 100);
insert into duly.rollups
select 'default', now() - n * interval '1 minute', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
from generate_series(1, 40000) n;
insert into duly.alerts (namespace, kind, subject, detail, raised_at, seen_at, cleared_at)
select 'default', 'circuit_open', n::text, '', now(), now(), now() from generate_series(1, 5000) n;
analyze
"""


@pytest.fixture
async def filled(postgres_url: str) -> Any:
    """A store with much in it, hardly any of it of interest."""
    async with duly.App(postgres_url):
        pass
    opened = await asyncpg.connect(postgres_url)
    await opened.execute(FILL)
    yield opened
    await opened.close()


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_on_postgres_nothing_that_grows_is_read_whole(filled: Any, mode: str) -> None:
    for name in NAMES:
        statement = statements("postgres")[name]
        given = ", ".join(GIVEN[each] for each in statement.parameters)
        await filled.execute(f"set plan_cache_mode = {mode}; prepare it as {statement.text}")
        plan = "\n".join(row[0] for row in await filled.fetch(f"explain execute it({given})"))
        await filled.execute("deallocate it")
        # The gates of all targets are looked at with the targets, but not to find open circuits.
        for table in (*GROWING, *(["gates"] if name == "situations.circuits" else [])):
            assert f"Seq Scan on {table}" not in plan, (name, plan)


@pytest.mark.parametrize("name", NAMES)
async def test_on_sqlite_nothing_that_grows_is_read_whole(sqlite_url: str, name: str) -> None:
    async with duly.App(sqlite_url):
        pass
    connection = apsw.Connection(sqlite_url.removeprefix("sqlite:///"))
    statement = statements("sqlite")[name]
    bound = dict.fromkeys(statement.parameters, 1)
    steps = [row[-1] for row in connection.execute(f"explain query plan {statement.text}", bound)]
    connection.close()
    tables = {*(f"duly_{each}" for each in GROWING), "a", "d"}
    scanned = [each for each in steps if each.startswith("SCAN") and each.split()[1] in tables]
    assert [each for each in scanned if " INDEX " not in each] == []
