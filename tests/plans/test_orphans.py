"""Plans of the queries for orphans: schedules that were made otherwise cost them nothing."""

from __future__ import annotations

import pytest

from tests.plans.steps import filled_with, postgres_plan, sqlite_steps

pytestmark = pytest.mark.requirement("P9", "D5")
NAMES = ("declarations.orphans", "declarations.undeclared")
INDEX = "schedules_declared"
GIVEN = {
    "namespace": "'default'",
    "after": "''",
    "limit": "50",
    "program": "'shop'",
    "name": "null",
    "declared": "array['a', 'b']",
    "now": "null",
}
FILL = """
insert into duly.targets (namespace, name) values ('default', 'work');
insert into duly.schedules (namespace, name, rule, catch_up, catch_up_cap, overlap, jitter, target,
                            priority, created_at, updated_at, program, place)
select 'default', 's' || n, '{}', 'latest', 1000, 'allow', 0, 1, 5, now(), now(),
       case when n % 1000 = 0 then 'shop' end, case when n % 1000 = 0 then 'shop.work' end
from generate_series(1, 40000) n;
insert into duly.progress (schedule, namespace, fired_at)
select id, namespace, now() from duly.schedules;
analyze;
"""


@pytest.mark.parametrize("name", NAMES)
def test_on_sqlite_they_read_the_declared_schedules_only(sqlite_url: str, name: str) -> None:
    steps = sqlite_steps(sqlite_url, name, declared="[]", after="")
    assert any(INDEX in each for each in steps), steps


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_on_postgresql_they_read_the_declared_schedules_only(
    postgres_url: str, mode: str
) -> None:
    async with filled_with(postgres_url, FILL) as connection:
        for name in NAMES:
            plan = await postgres_plan(connection, name, GIVEN, mode)
            assert INDEX in plan, plan
            assert "Seq Scan on schedules" not in plan, plan
            assert "Seq Scan on progress" not in plan, plan
