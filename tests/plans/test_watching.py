"""Plans of the queries of every second: they use indexes, at any size of the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from duly.stores.postgres.database import PLANNER
from tests.plans.steps import filled_with, postgres_plan, sqlite_steps

pytestmark = pytest.mark.requirement("S3", "D5")
GIVEN = {
    "namespace": "'default'",
    "served": "null",
    "grace": "60",
    "most": "50000",
    "limit": "1",
    "targets": "array[1, 2, 3]",
    "now": "null",
    "since_at": "now() - interval '1 hour'",
    "until_at": "now()",
    "step": "60",
    "key": "'duly.alert.'",
    "kind": "'target'",
    "name": "'https://host7'",
    "kept_for": "3024000",
}
NAMES = (
    *("agenda.backlog", "agenda.late_work", "status.circuits", "status.behind", "limits.use"),
    *("failure_stats.poison_candidates", "failure_stats.halted", "queue.limited"),
    *(
        "rollups.series",
        "rollups.times",
        "rollups.part_series",
        "rollups.prune_parts",
        "alerts.raised",
        "alerts.died",
    ),
)
ORDERED = {"agenda.backlog", "agenda.late_work"}
"""They use the channel `plan`: sorting a backlog takes far longer than reading it in order."""
RARE = {"rollups.prune_parts"}
"""Not read by those who watch, and not every second."""
GROWING = ("agenda", "deliveries", "rollups", "part_rollups", "alerts")
FILL = """
insert into duly.targets (namespace, name)
select 'default', 'https://host' || n from generate_series(1, 5000) n;
insert into duly.gates (target) select n from generate_series(1, 5000) n;
insert into duly.deliveries (id, target, priority, namespace, due_at, accepted_at, payload)
select gen_random_uuid(), 1 + n % 5, 5, 'default', now() + n * interval '1 second', now(), '1'
from generate_series(1, 40000) n;
insert into duly.agenda (lane, delivery, target, priority, due_at)
select id, id, target, priority, due_at from duly.deliveries;
insert into duly.streams (lane, namespace, name, counter, used_at)
select gen_random_uuid(), 'default', 's' || n, 1, now() from generate_series(1, 200) n;
insert into duly.deliveries (id, target, priority, namespace, due_at, accepted_at, payload, state,
                             stream, lane, position)
select gen_random_uuid(), 1, 5, 'default', now(), now(), '1', 'completed', s.name, s.lane, n
from duly.streams s, generate_series(1, 200) n;
insert into duly.claims (token, lanes)
select 1, array(select lane from duly.agenda limit 100);
insert into duly.rollups
select 'default', now() - n * interval '1 minute', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
from generate_series(1, 40000) n;
insert into duly.part_rollups
select 'default', 'target', 'https://host' || n % 500, now() - n * interval '1 minute',
       1, 1, 1, 1, 1
from generate_series(1, 40000) n;
insert into duly.alerts (namespace, kind, subject, detail, raised_at, seen_at, cleared_at)
select 'default', 'circuit_open', n::text, '', now(), now(), now() from generate_series(1, 5000) n;
"""


@pytest.fixture(params=["analyze", ""], ids=["analyzed", "never analyzed"])
async def filled(postgres_url: str, request: pytest.FixtureRequest) -> Any:
    """A store with many rows, of which few match."""
    async with filled_with(postgres_url, FILL + request.param) as opened:
        yield opened


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_on_postgres_no_growing_table_is_read_completely(filled: Any, mode: str) -> None:
    is_known = await filled.fetchval("select reltuples > 0 from pg_class where relname = 'agenda'")
    for name in NAMES if is_known else set(NAMES) - RARE:
        await filled.execute(PLANNER.apply if name in ORDERED else PLANNER.undo)
        plan = await postgres_plan(filled, name, GIVEN, mode)
        if name in ORDERED:
            assert "Bitmap" not in plan, (name, plan)
        # The gates of all targets are read with the targets, but not to find open circuits.
        for table in (*GROWING, *(["gates"] if name == "status.circuits" else [])):
            assert f"Seq Scan on {table}" not in plan, (name, plan)


@pytest.mark.parametrize("name", NAMES)
async def test_on_sqlite_no_growing_table_is_read_completely(sqlite_url: str, name: str) -> None:
    steps = sqlite_steps(sqlite_url, name)
    tables = {*(f"duly_{each}" for each in GROWING), "a", "d"}
    scanned = [each for each in steps if each.startswith("SCAN") and each.split()[1] in tables]
    assert [each for each in scanned if " INDEX " not in each] == []
