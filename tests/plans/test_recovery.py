"""Plans of the recovery of dead letters: what it looks for is in small indexes of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.steps import filled_with, postgres_plan, sqlite_steps

pytestmark = pytest.mark.requirement("L1", "D5")
VALUES = {
    "namespace": "'default'",
    "served": "null",
    "generation": "'v1'",
    "now": "now()",
    "limit": "100",
    "target": "1",
    "name": "'v1'",
    "disposition": "'recovering'",
    "first_at": "now()",
    "waiting": "'{}'",
    "stream": "'s1'",
    "ids": "'{}'",
}
BY = {
    "survey": ("deliveries_undecided", "deliveries_revive"),
    "forget": ("deliveries_disposed",),
    "undecided_targets": ("deliveries_undecided",),
    "undecided": ("deliveries_undecided",),
    "due": ("deliveries_revive",),
    "take_line": ("deliveries_dead_line",),
    "untried": ("deliveries_disposed",),
    "untried_line": ("deliveries_dead_line",),
    "untried_count": ("deliveries_disposed",),
}
FILL = """
insert into duly.targets (namespace, name) values ('default', 'mail');
insert into duly.deliveries (id, target, priority, namespace, due_at, accepted_at, payload, state,
                             dead_at, stream, position, disposition, revive_at)
select gen_random_uuid(), 1, 5, 'default', now(), now(), '1',
       case when n % 20 = 0 then 'dead' else 'completed' end,
       case when n % 20 = 0 then now() end,
       case when n % 40 = 0 then 's' || n % 100 end, case when n % 40 = 0 then n end,
       case n % 100 when 0 then 'recovering' when 20 then 'left' when 40 then 'held' end,
       case when n % 100 = 0 then now() end
from generate_series(1, 40000) n;
analyze duly.deliveries
"""


@pytest.fixture
async def filled(postgres_url: str) -> Any:
    """A ledger in which every twentieth delivery is dead."""
    async with filled_with(postgres_url, FILL) as opened:
        yield opened


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", BY)
async def test_each_statement_uses_its_index(filled: Any, name: str, mode: str) -> None:
    plan = await postgres_plan(filled, f"recovery.{name}", VALUES, mode)
    assert all(index in plan for index in BY[name]), plan
    assert "Seq Scan on deliveries" not in plan


@pytest.mark.parametrize("name", BY)
async def test_each_statement_uses_an_index_on_sqlite_too(sqlite_url: str, name: str) -> None:
    steps = sqlite_steps(sqlite_url, f"recovery.{name}", waiting="[]", served=None, ids="[]")
    used = " ".join(steps)
    assert all(f"duly_{index}" in used for index in BY[name]), steps
    assert not any(each in ("SCAN d", "SCAN duly_deliveries") for each in steps)
