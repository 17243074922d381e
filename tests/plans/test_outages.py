"""Plans of the report of outages: each statement reads one slice of the ledger, by its key."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.steps import filled_with, postgres_plan, sqlite_steps
from tests.plans.test_listing import FILL

pytestmark = pytest.mark.requirement("L7")
SLICE = {
    "namespace": "'default'",
    "before": "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    "horizon_at": "now() - interval '7 days'",
    "seen_at": "now()",
    "at_least": "300",
    "ended": "'{1}'",
    "last": "'{1}'",
    "earliest_at": "now() - interval '1 day'",
    "latest_at": "now()",
}
NAMES = ("worked", "waited", "delayed")


@pytest.fixture
async def filled(postgres_url: str) -> Any:
    async with filled_with(postgres_url, FILL) as opened:
        yield opened


async def test_a_slice_is_read_by_its_key(filled: Any) -> None:
    floor = "select id from duly.deliveries order by id desc offset 1000 limit 1"
    known = SLICE | {"floor": f"'{await filled.fetchval(floor)}'"}
    for mode in ("force_custom_plan", "force_generic_plan"):
        for name in NAMES:
            plan = await postgres_plan(filled, f"outages.{name}", known, mode)
            assert "deliveries_pkey" in plan, (name, mode, plan)
            assert "Seq Scan on deliveries" not in plan, (name, mode, plan)
            assert "Seq Scan on attempts" not in plan, (name, mode, plan)


@pytest.mark.parametrize("name", NAMES)
def test_a_slice_is_read_by_its_key_on_sqlite_too(sqlite_url: str, name: str) -> None:
    steps = sqlite_steps(sqlite_url, f"outages.{name}", ended="[1]", last="[1]")
    tables = ("d", "t", "f", "p")
    read = [each for each in steps if "duly_" in each or each.split()[1] in tables]
    scanned = [
        each for each in read if each.startswith("SCAN") and each.split()[1] in ("d", "t", "p")
    ]
    assert not scanned, steps
