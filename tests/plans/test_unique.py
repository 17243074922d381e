"""Plans of the statements of unique keys: each row is found by its key, never by a scan."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.plans.steps import filled_with, postgres_plan, sqlite_steps

pytestmark = pytest.mark.requirement("P7", "D5")
ID = "'00000000-0000-7000-8000-000000000001'"
VALUES = {
    "in_batch": "null",
    "namespace": "'default'",
    "target": "'{1}'",
    "key": "'{k1}'",
    "waiting": f"array[{ID}]::uuid[]",
    "running": "'{null}'",
    "ids": f"array[{ID}]::uuid[]",
    "id": ID,
    "note": "'{n}'",
    "lanes": f"array[{ID}]::uuid[]",
    "first": "1",
    "last": "5",
    "after_target": "1",
    "after_key": "'k1'",
    "limit": "100",
    "now": "now()",
}
BY = {
    "point": ("unique_keys_pkey",),
    "drop": ("unique_keys_pkey",),
    "open": ("agenda_pkey", "deliveries_pkey"),
    "shut": ("agenda_pkey",),
    "same": ("deliveries_pkey", "agenda_pkey"),
    "before": ("deliveries_pkey", "unique_keys_pkey"),
    "dead": ("deliveries_pkey",),
    "held_under": ("deliveries_pkey",),
    "of_lanes": ("deliveries_pkey",),
    "slice": ("unique_keys_pkey", "agenda_pkey"),
}
SQLITE = {*BY, "lock", "try_lock", "accept", "replace", "supersede", "unsettle", "settled"}
FILL = """
insert into duly.targets (namespace, name) values ('default', 'mail');
insert into duly.deliveries
    (id, target, priority, namespace, due_at, accepted_at, payload, unique_key)
select gen_random_uuid(), 1, 5, 'default', now(), now(), '1', 'k' || n
from generate_series(1, 20000) n;
insert into duly.agenda (lane, delivery, due_at, target, priority)
select id, id, due_at, 1, 5 from duly.deliveries;
insert into duly.unique_keys (target, key, waiting)
select target, unique_key, id from duly.deliveries
"""
ANALYZE = "analyze duly.deliveries; analyze duly.agenda; analyze duly.unique_keys"
FUNCTIONS = {
    "lock_keys": "select * from duly.lock_keys('{1,1}', '{k1,k2}', now())",
    "try_lock_keys": "select * from duly.try_lock_keys('{1,1}', '{k1,k2}')",
    "replace_waiting": (
        "select duly.replace_waiting(waiting, '2', null, 5::smallint, null, null, null, now(), 1, "
        "now()) from duly.unique_keys where target = 1 and key = 'k7'"
    ),
}


@pytest.fixture
async def filled(postgres_url: str) -> AsyncIterator[Any]:
    """A store in which 20,000 deliveries wait, each with a unique key."""
    async with filled_with(postgres_url, f"{FILL}; {ANALYZE}") as opened:
        yield opened


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_each_statement_uses_its_index(filled: Any, mode: str) -> None:
    for name, indexes in BY.items():
        plan = await postgres_plan(filled, f"unique.{name}", VALUES, mode)
        assert all(index in plan for index in indexes), (name, plan)
        assert not any(f"Seq Scan on {each}" in plan for each in ("deliveries", "unique_keys"))


async def test_functions_first_used_on_empty_tables_read_no_more_than_their_keys_later(
    postgres_url: str,
) -> None:
    read = (
        "select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) "
        "from pg_stat_xact_user_tables "
        "where schemaname = 'duly' and relname in ('deliveries', 'agenda', 'unique_keys')"
    )
    async with filled_with(postgres_url, "select 1") as connection:
        for _ in range(8):
            for statement in FUNCTIONS.values():
                await connection.fetch(statement)
        await connection.execute("truncate duly.unique_keys")
        await connection.execute(FILL)
        for statement in FUNCTIONS.values():
            async with connection.transaction():
                # What was read before may not be reported yet.
                before = await connection.fetchval(read)
                await connection.fetch(statement)
                assert await connection.fetchval(read) - before < 50, statement


@pytest.mark.parametrize("name", sorted(SQLITE))
async def test_each_statement_uses_an_index_on_sqlite_too(sqlite_url: str, name: str) -> None:
    steps = sqlite_steps(sqlite_url, f"unique.{name}", ids="[]", lanes="[]")
    scans = [each for each in steps if each.startswith("SCAN")]
    assert all("json_each" in each or "CONSTANT" in each for each in scans), steps


async def test_all_of_a_key_are_found_by_its_index(filled: Any, sqlite_url: str) -> None:
    given = dict.fromkeys(
        ("state", "target", "stream", "schedule", "tag", "reason", "since", "until", "text"), "null"
    )
    values = VALUES | given | {"key": "'k1'", "before": ID, "limit": "50", "late_over": "null"}
    for mode in ("force_custom_plan", "force_generic_plan"):
        plan = await postgres_plan(filled, "pages.by_key", values, mode)
        assert "deliveries_unique_key" in plan, plan
        assert "Seq Scan on deliveries" not in plan, plan
    steps = sqlite_steps(sqlite_url, "pages.by_key")
    assert any("deliveries_unique_key" in each for each in steps), steps
