"""Plans of lists: a page reads a part of one index, never the whole ledger."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.steps import filled_with, postgres_plan, sqlite_steps

pytestmark = pytest.mark.requirement("S2", "L7")
FILTER = {
    "namespace": "'default'",
    "state": "'dead'",
    "target": "null",
    "stream": "'s7'",
    "in_batch": "null",
    "schedule": "'nightly'",
    "tag": "'red'",
    "reason": "null",
    "text": "null",
    "since": "null",
    "until": "null",
    "late_over": "300",
    "now": "null",
    "as_of": "now()",
    "ceiling": "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    "late_below": "null",
    "key": "'k'",
    "before": "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    "most": "1000",
    "limit": "50",
    "number": "7",
    "stop": "'00000000-0000-0000-0000-000000000000'",
}
BATCH = "'00000000-0000-0000-0000-000000000008'"
FLOORS = {"line": "0", "occurrences": "''"}
BY = {
    "page": "deliveries_pkey",
    "counts": "deliveries_pkey",
    "lateness": "deliveries_pkey",
    "late_below": "deliveries_pkey",
    "floor": "deliveries_pkey",
    "line": "deliveries_line",
    "line_floor": "deliveries_line",
    "occurrences": "deliveries_occurrence",
    "occurrences_floor": "deliveries_occurrence",
    "members": "deliveries_batch",
    "members_floor": "deliveries_batch",
    "member_counts": "deliveries_batch",
    "by_key": "deliveries_key",
    "under_way": "deliveries_pkey",
}
FILL = """
insert into duly.attempts (delivery, attempt, outcome, finished_at)
select gen_random_uuid(), 1, 'retry', now() from generate_series(1, 40000);
analyze duly.attempts;
insert into duly.targets (namespace, name) values ('default', 'mail');
insert into duly.streams (lane, namespace, name, counter, used_at)
select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'default', 's' || n, 1, now()
from generate_series(1, 100) n;
insert into duly.deliveries (id, target, priority, namespace, due_at, accepted_at, payload, state,
                             key, stream, lane, position, schedule, occurrence, batch)
select ('01990000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 1, 5, 'default', now(),
       now(), '1', 'completed', 'k' || n,
       's' || n % 100, ('00000000-0000-0000-0000-' || lpad((n % 100)::text, 12, '0'))::uuid, n,
       n % 100, n::text,
       case when n % 2 = 0
            then ('00000000-0000-0000-0000-' || lpad((n % 200)::text, 12, '0'))::uuid end
from generate_series(1, 40000) n;
update duly.deliveries set lane = null where position % 3 = 0;
analyze duly.deliveries
"""

HALTED = """
insert into duly.agenda (lane, delivery, target, priority, due_at)
select id, id, target, priority, due_at from duly.deliveries
"""
WATCHED = {"pages.floor": "deliveries_pkey", "failure_stats.halted": "agenda_halted"}
"""Read every few seconds by each dashboard, also on a table that was never analyzed."""


@pytest.fixture
async def filled(postgres_url: str) -> Any:
    async with filled_with(postgres_url, FILL) as opened:
        yield opened


async def test_every_list_uses_its_index(filled: Any) -> None:
    floor = "select id from duly.deliveries order by id desc offset 1000 limit 1"
    FLOORS["page"] = f"'{await filled.fetchval(floor)}'"
    for mode in ("force_custom_plan", "force_generic_plan"):
        for name, index in BY.items():
            known = FILTER | {"floor": FLOORS.get(name, FLOORS["page"])}
            if name.startswith("member"):
                known["in_batch"] = BATCH
            plan = await postgres_plan(filled, f"pages.{name}", known, mode)
            assert index in plan, (name, mode, plan)
            if name.startswith("line"):
                assert "deliveries_apart" in plan, (name, mode, plan)
            assert "Seq Scan on deliveries" not in plan, (name, mode, plan)
            assert "Seq Scan on attempts" not in plan, (name, mode, plan)


@pytest.mark.requirement("U1")
async def test_a_list_that_people_watch_needs_no_statistics(postgres_url: str) -> None:
    unknown = FILL.removesuffix("analyze duly.deliveries\n") + HALTED
    async with filled_with(postgres_url, unknown) as opened:
        for mode in ("force_custom_plan", "force_generic_plan"):
            for name, index in WATCHED.items():
                plan = await postgres_plan(opened, name, FILTER | {"most": "9999"}, mode)
                assert index in plan, (name, mode, plan)
                assert "Seq Scan" not in plan, (name, mode, plan)


@pytest.mark.parametrize("name", BY)
def test_every_list_uses_an_index_on_sqlite_too(sqlite_url: str, name: str) -> None:
    steps = sqlite_steps(sqlite_url, f"pages.{name}")
    tables = ("d", "duly_deliveries")
    assert not any(each.startswith("SCAN") and each.split()[1] in tables for each in steps), steps
