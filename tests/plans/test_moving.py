"""Plans of an export and an import: slices and index lookups, at any size of the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from duly.stores.postgres.database import PLANNER, READER
from tests.plans.steps import filled_with, postgres_plan, sqlite_steps

pytestmark = pytest.mark.requirement("C10", "D5")
LOW, HIGH = "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"
ONE = "'{01990000-0000-7000-8000-000000000001}'"
GIVEN = {
    "namespace": "'default'", "everything": "false", "lane": LOW, "position": "0",
    "until_lane": LOW, "until_position": "9", "batch": "200", "after": LOW, "until": HIGH,
    "ids": ONE, "id": ONE, "key": "'{k}'", "schedule": "'{1}'", "occurrence": "'{x}'",
    "priority": "'{5}'", "due_at": "'{2026-01-01Z}'", "crashes": "'{0}'",
    "replay_from": "null", "halted": "null", "halted_at": "null", "unblocks_at": "null",
}  # fmt: skip
READ = {
    "slice": ("deliveries_line",),
    "in_line": ("deliveries_line", "agenda_pkey", "schedules_pkey"),
    "apart": ("deliveries_pkey", "agenda_pkey", "schedules_pkey"),
    "steps": ("steps_pkey",),
    "history": ("attempts_delivery",),
}
WRITTEN = {
    "known": ("deliveries_pkey", "deliveries_key", "deliveries_occurrence"),
    "lay": ("deliveries_pkey",),
    "lead": ("deliveries_pkey",),
}


@pytest.fixture
async def empty(postgres_url: str) -> Any:
    """An empty store: an import starts with one, and PostgreSQL keeps the plans."""
    async with filled_with(postgres_url, PLANNER.apply) as opened:
        yield opened


async def test_an_import_uses_indexes_from_the_first_batch_on(empty: Any) -> None:
    for name, indexes in WRITTEN.items():
        lane = {"lane": ONE} if name == "lead" else {}
        plan = await postgres_plan(empty, f"transfer.{name}", GIVEN | lane, "force_generic_plan")
        for index in indexes:
            probed = plan.split(f"using {index} on deliveries", 1)[-1].splitlines()[1]
            assert "Index Cond" in probed, (name, plan)
            assert "= g" in probed, (name, plan)
        assert "Seq Scan on" not in plan, (name, plan)


async def test_an_export_reads_slices_of_an_index(empty: Any) -> None:
    async with empty.transaction():
        await empty.execute(READER)
        for name, indexes in READ.items():
            plan = await postgres_plan(empty, f"transfer.{name}", GIVEN, "force_custom_plan")
            assert all(index in plan for index in indexes), (name, plan)
            assert "Seq Scan on" not in plan, (name, plan)


@pytest.mark.parametrize("name", [*READ, *WRITTEN, "open", "reach"])
def test_on_sqlite_no_growing_table_is_read_completely(sqlite_url: str, name: str) -> None:
    steps = sqlite_steps(sqlite_url, f"transfer.{name}", ids="[]")
    # `s` is the slice itself.
    read = [each.split()[1] for each in steps if each.startswith("SCAN")]
    assert set(read) <= {"s", "json_each"}, steps
