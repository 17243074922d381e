"""Plans of batches: members are read by their batch, and nothing reads the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.steps import filled_with, postgres_plan, sqlite_steps

pytestmark = pytest.mark.requirement("P8")
BATCH = "'01980000-0000-7000-8000-000000000001'"
LAST = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"
VALUES = {
    "id": BATCH,
    "ids": "'{01980000-0000-7000-8000-000000000001}'",
    "in_batch": BATCH,
    "namespace": "'default'",
    "after_namespace": "''",
    "after": "'00000000-0000-0000-0000-000000000000'",
    "before": LAST,
    "served": "null",
    "now": "now()",
    "limit": "100",
    "most": "100",
    "is_open": "true",
    "kept_for": "60",
    **dict.fromkeys(("pending", "completed", "dead", "cancelled"), "1"),
}
BY = {
    "batches.survey": ("deliveries_batch",),
    "batches.pending": ("deliveries_batch",),
    "batches.lock": ("deliveries_batch_dead",),
    "batches.unfinished": ("batches_unfinished",),
    "batches.page": (),
    "batches.page_unfinished": ("batches_unfinished",),
    "batches.page_cancelled": ("batches_cancelled",),
    "batches.hold": (),
    "batches.close": (),
    "batches.count": (),
    "batches.prune": ("batches_finished", "deliveries_batch"),
    "pages.members_floor": ("deliveries_batch",),
}
FILL = """
insert into duly.targets (namespace, name) values ('default', 'mail');
insert into duly.batches (id, namespace, completion, opened_at, closed_at, finished_at,
                          cancelled_at)
select ('01980000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'default', '{}', now(), now(),
       case when n % 100 > 0 then now() - interval '1 hour' end, case when n % 90 = 0 then now() end
from generate_series(1, 20000) n;
insert into duly.deliveries (id, target, priority, namespace, due_at, accepted_at, payload, state,
                             dead_at, batch)
select gen_random_uuid(), 1, 5, 'default', now(), now(), '1',
       case n % 20 when 0 then 'dead' when 1 then 'pending' else 'completed' end,
       case when n % 20 = 0 then now() end,
       case when n % 2 = 0
            then ('01980000-0000-7000-8000-' || lpad((n % 9)::text, 12, '0'))::uuid end
from generate_series(1, 40000) n;
analyze duly.deliveries; analyze duly.batches
"""


@pytest.fixture
async def filled(postgres_url: str) -> Any:
    """A ledger of which half is in a few batches, and many finished batches."""
    async with filled_with(postgres_url, FILL) as opened:
        yield opened


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", BY)
async def test_each_statement_uses_its_index(filled: Any, name: str, mode: str) -> None:
    # As the channel on which the finisher reads; see stores/postgres/database.py.
    await filled.execute("set enable_seqscan = off; set enable_bitmapscan = off")
    plan = await postgres_plan(filled, name, VALUES, mode)
    assert all(index in plan for index in BY[name]), plan
    assert "Seq Scan" not in plan
    assert "Sort Key" not in plan or name == "batches.hold", plan


@pytest.mark.parametrize("name", BY)
async def test_each_statement_uses_an_index_on_sqlite_too(sqlite_url: str, name: str) -> None:
    steps = sqlite_steps(sqlite_url, name, served=None, ids="[]")
    used = " ".join(steps)
    assert all(f"duly_{index}" in used for index in BY[name]), steps
    assert not any(each.startswith("SCAN duly_") for each in steps), steps
