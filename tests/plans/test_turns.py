"""Plans of turns: keys and their lanes are found by index, however many there are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.steps import filled_with, postgres_plan, sqlite_steps

pytestmark = [pytest.mark.requirement("P6"), pytest.mark.requirement("P10")]
VALUES = {
    "priority": "'{5}'",
    "target": "'{-1}'",
    "after": "array['']",
    "quota": "'{50}'",
    "turn": "array['limit:7']",
    "many": "'{2}'",
    "version": "'{1}'",
    "in_flight": "'{9}'",
    "at_once": "'{2}'",
    "ahead_to": "'{6}'",
    "paced_at": "'{2026-03-01}'",
    "interval": "'{0.2}'",
    "visits": "250",
    "worker": "1",
    "token": "4294967297",
    "slots": "50",
    "finished": "'{}'",
    "limit": "100",
    "most": "100",
    "now": "now()",
}
ONE = {"target": "1", "turn": "'limit:7'", "after": "'limit:'"}
BY = {
    "turns.visit": ("agenda_turn", "limit_keys_pkey"),
    "turns.claim": ("agenda_turn", "limit_keys_pkey", "deliveries_pkey"),
    "turns.prune": ("agenda_turn",),
    "turns.key": ("limit_keys_pkey", "agenda_pkey"),
    "turns.keys": ("limit_keys_pkey", "agenda_turn"),
}
SQLITE = {
    "turns.visit": ("agenda_turn", "agenda_turn_held"),
    "turns.claim": ("agenda_turn", "agenda_turn_held"),
    "turns.prune": ("agenda_turn", "agenda_turn_held"),
    "turns.key": ("agenda_turn_held",),
    "turns.keys": ("agenda_turn", "agenda_turn_held"),
}
FILL = """
insert into duly.targets (namespace, name) values ('default', 'mail');
insert into duly.agenda (lane, delivery, target, priority, due_at, turn)
select gen_random_uuid(), gen_random_uuid(), -1, 5, now(),
       case when n % 2 = 0 then 'limit:' || n % 5000 else 'fair:flooded' end
from generate_series(1, 30000) n;
insert into duly.limit_keys (target, turn, version, lanes, tokens)
select -1, 'limit:' || n, 1, '{}', '{}' from generate_series(1, 5000) n;
analyze duly.agenda; analyze duly.limit_keys
"""

FLOODED = """
insert into duly.targets (namespace, name) values ('default', 'mail');
insert into duly.agenda (lane, delivery, target, priority, due_at, turn)
select gen_random_uuid(), gen_random_uuid(), -1, 5, now() - interval '1 hour', 'limit:flooded'
from generate_series(1, 100000) n;
insert into duly.limit_keys (target, turn, version, lanes, tokens)
select -1, 'limit:' || n, 1, '{}', '{}' from generate_series(1, 200) n;
analyze duly.agenda; analyze duly.limit_keys
"""


@pytest.fixture
async def filled(postgres_url: str) -> Any:
    """Many limit keys with some lanes, and a fair key with many."""
    async with filled_with(postgres_url, FILL) as opened:
        yield opened


@pytest.mark.parametrize("name", BY)
async def test_each_statement_uses_its_index(filled: Any, name: str) -> None:
    # As the channel on which claims are made; see stores/postgres/database.py.
    await filled.execute(
        "set enable_seqscan = off; set enable_bitmapscan = off; set enable_nestloop = off"
    )
    values = VALUES if name in ("turns.visit", "turns.claim") else VALUES | ONE
    plan = await postgres_plan(filled, name, values, "force_generic_plan")
    assert all(index in plan for index in BY[name]), plan
    # Maintenance reads all keys, and probes the lanes of each.
    allowed = "Seq Scan on limit_keys k" if name == "turns.prune" else ""
    assert "Seq Scan" not in plan.replace(allowed, "")


@pytest.mark.parametrize("name", ["turns.claim", "turns.prune", "turns.keys"])
async def test_one_flooded_key_leads_to_no_other_plan(postgres_url: str, name: str) -> None:
    """For the planner every lane has this key: others must not be looked for among its lanes."""
    async with filled_with(postgres_url, FLOODED) as opened:
        if name == "turns.claim":
            await opened.execute(
                "set enable_seqscan = off; set enable_bitmapscan = off; set enable_nestloop = off"
            )
        values = VALUES if name == "turns.claim" else VALUES | ONE
        plan = await postgres_plan(opened, name, values, "force_generic_plan")
    assert "agenda_turn" in plan
    assert "agenda_open" not in plan, plan
    assert "Seq Scan on agenda" not in plan, plan


async def test_new_keys_are_inserted_in_one_order(filled: Any) -> None:
    """Two claims with the same new keys would wait for each other otherwise."""
    plan = await postgres_plan(filled, "turns.claim", VALUES, "force_generic_plan")
    inserting = plan[plan.index("Insert on limit_keys") :]
    first_sort = inserting[: inserting.index("CTE Scan on taken")]
    assert "Sort Key: taken.target, taken.turn" in first_sort, plan


@pytest.mark.parametrize("name", BY)
async def test_each_statement_uses_an_index_on_sqlite_too(sqlite_url: str, name: str) -> None:
    steps = sqlite_steps(sqlite_url, name, batch="[]")
    used = " ".join(steps)
    assert all(f"duly_{index}" in used for index in SQLITE[name]), steps
    assert not any(each.startswith("SCAN duly_agenda") for each in steps), steps
