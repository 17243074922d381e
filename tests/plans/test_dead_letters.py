"""Plans of queries for dead letters: they never read the whole ledger."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.steps import filled_with, postgres_plan, sqlite_steps

pytestmark = pytest.mark.requirement("F4", "D5")
FILTER = {
    "most": "1000",
    "namespace": "'default'",
    "since": "'1970-01-01Z'",
    "until": "now()",
    "ids": "null",
    "fingerprint": "'f'",
    "reason": "null",
    "target": "null",
    "stream": "null",
    "schedule": "null",
    "disposition": "null",
    "tag": "null",
    "text": "null",
    "before_at": "'9000-01-01Z'",
    "before": "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    "after_at": "'1970-01-01Z'",
    "after": "'00000000-0000-0000-0000-000000000000'",
    "after_stream": "''",
    "after_position": "0",
    "limit": "100",
}
BY = {
    "page": "deliveries_dead",
    "floor": "deliveries_dead",
    "count": "deliveries_dead",
    "groups": "deliveries_dead_groups",
    "groups_among": "deliveries_dead",
    "apart": "deliveries_dead",
    "in_line": "deliveries_dead_line",
}
FILL = """
insert into duly.targets (namespace, name) values ('default', 'mail');
insert into duly.deliveries (id, target, priority, namespace, due_at, accepted_at, payload, state,
                             dead_at, fingerprint, stream, position)
select gen_random_uuid(), 1, 5, 'default', now(), now(), '1',
       case when n % 20 = 0 then 'dead' else 'completed' end,
       case when n % 20 = 0 then now() end, case when n % 20 = 0 then 'f' end,
       case when n % 40 = 0 then 's' || n % 100 end, case when n % 40 = 0 then n end
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
async def test_a_filter_uses_the_index_of_dead_letters(filled: Any, name: str, mode: str) -> None:
    plan = await postgres_plan(filled, f"dead_letters.{name}", FILTER, mode)
    assert BY[name] in plan
    assert "Seq Scan on deliveries" not in plan
    assert "Seq Scan on attempts" not in plan


@pytest.mark.parametrize("name", BY)
async def test_a_filter_uses_an_index_on_sqlite_too(sqlite_url: str, name: str) -> None:
    steps = sqlite_steps(sqlite_url, f"dead_letters.{name}", ids="[]")
    (ledger,) = [each for each in steps if each.split()[1] == "d" and "deliveries_dead" in each]
    assert ledger.startswith(f"SEARCH d USING INDEX duly_{BY[name]} ") or "COVERING" in ledger
    assert not any(each.startswith("SCAN") and each.split()[1] in ("d", "t") for each in steps)
