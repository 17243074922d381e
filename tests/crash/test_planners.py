"""Planners that are killed at every step make each occurrence once, and skip none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import duly
from duly.testing import VirtualClock
from tests.crash.fleet import Fleet, Process, StoreUnderTest

pytestmark = pytest.mark.long

HOUR = timedelta(hours=1)
PUNCTUAL, BEHIND = 6000, 4000
MISSED = 4
UUID = (
    "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-7' || substr(hex(randomblob(2)), 2)"
    " || '-8' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
)


async def schedules_due_at_once(store: StoreUnderTest) -> None:
    """10 000 schedules that are due now; some were missed for hours."""
    now = datetime.now(UTC)
    rule = duly.every("1h", anchor=now - timedelta(seconds=1))
    for name, many, age in (("punctual", PUNCTUAL, HOUR), ("behind", BEHIND, MISSED * HOUR)):
        clock = VirtualClock(now - age + timedelta(minutes=1))
        async with duly.App(store.database, clock=clock, environment={}) as app:
            app.expect("unserved")
            await app.schedule(f"{name} 0", rule, "unserved", catch_up="all")
        await multiply(store, name, many)
    assert await count(store, "schedules") == await count(store, "agenda") == PUNCTUAL + BEHIND


async def multiply(store: StoreUnderTest, name: str, many: int) -> None:
    """Copy the first schedule of that name, and all its rows, this many times."""
    columns = {table: await columns_of(store, table) for table in ("schedules", "deliveries")}
    numbers = f"generate_series(1, {many - 1}) as n"
    new_id, series, of = "gen_random_uuid()", "", "n"
    if not store.postgres:
        series = (
            f"with recursive s(n) as (select 1 union all select n + 1 from s where n < {many - 1}) "
        )
        numbers, new_id, of = "s", UUID, "s.n"
    others = ", ".join(each for each in columns["schedules"] if each not in ("id", "name"))
    await store.run(
        f"insert into duly.schedules (name, {others}) {series}select '{name} ' || {of},"
        f" {', '.join('t.' + each for each in others.split(', '))}"
        f" from duly.schedules t, {numbers} where t.name = '{name} 0'"
    )
    progress = "namespace, version, fired, fired_at, made, made_at, next_at, runs, merged, skipped"
    await store.run(
        f"insert into duly.progress (schedule, made_id, {progress}) select o.id, {new_id},"
        f" {', '.join('p.' + each for each in progress.split(', '))}"
        f" from duly.schedules o, duly.schedules t join duly.progress p on p.schedule = t.id"
        f" where t.name = '{name} 0' and o.name like '{name} %' and o.id <> t.id"
    )
    kept = [each for each in columns["deliveries"] if each not in ("id", "number", "schedule")]
    await store.run(
        f"insert into duly.deliveries (id, schedule, {', '.join(kept)}) select p.made_id,"
        f" p.schedule, {', '.join('d.' + each for each in kept)} from duly.deliveries d"
        f" join duly.schedules t on t.id = d.schedule, duly.progress p"
        f" join duly.schedules o on o.id = p.schedule"
        f" where t.name = '{name} 0' and o.name like '{name} %' and o.id <> t.id"
    )
    if store.postgres:
        await store.run(
            "insert into duly.agenda (lane, delivery, target, priority, due_at)"
            " select id, id, target, priority, due_at from duly.deliveries on conflict do nothing"
        )


async def columns_of(store: StoreUnderTest, table: str) -> list[str]:
    if store.postgres:
        found = await store.run(
            "select column_name from information_schema.columns"
            f" where table_schema = 'duly' and table_name = '{table}'"
        )
        return [row[0] for row in found]
    return [row[1] for row in await store.run(f"pragma table_info(duly_{table})")]


async def count(store: StoreUnderTest, table: str) -> int:
    return int((await store.run(f"select count(*) from duly.{table}"))[0][0])


WAVES = [
    ("plan.before=kill@1", "plan.middle=kill@1", "plan.after=kill@1"),
    ("plan.middle=kill@2", "plan.after=kill@4", "plan.before=kill@3"),
]


def killed(fleet: Fleet, store: StoreUnderTest, wave: tuple[str, ...]) -> list[Process]:
    """Planners that die at these failpoints: three at once, or on SQLite one after the other."""
    started = []
    for place in wave:
        started.append(fleet.start(DULY_FAILPOINTS=place))
        if not store.postgres:
            started[-1].popen.wait(30)
    for each in started:
        each.popen.wait(30)
    return started


@pytest.mark.requirement("C1", "D4", "D6")
async def test_planners_killed_at_every_step_make_each_occurrence_once_and_skip_none(
    fleet: Fleet, store: StoreUnderTest
) -> None:
    await schedules_due_at_once(store)
    deaths = [each.popen.returncode for wave in WAVES for each in killed(fleet, store, wave)]
    assert deaths == [-9] * 6, "a failpoint was never reached"
    assert await count(store, "deliveries") < 2 * PUNCTUAL + (MISSED + 1) * BEHIND, "too late"
    for _ in range(3 if store.postgres else 1):
        fleet.start()
    await until_planned(store)
    await assert_each_once(store)


async def until_planned(store: StoreUnderTest) -> None:
    now = "now()" if store.postgres else "cast(unixepoch('subsec') * 1000000 as integer)"
    await store.until(f"select count(*) from duly.progress where next_at <= {now}", 0)


async def assert_each_once(store: StoreUnderTest) -> None:
    """All occurrences of a schedule differ, and the last is the one in its progress."""
    rows = await store.run(
        "select substr(s.name, 1, 3), next_ones, runs, many, different, count(*) from ("
        " select p.schedule, p.runs, count(*) as many, count(distinct d.occurrence) as different,"
        " sum(case when d.id = p.made_id and d.occurrence = p.made and d.state = 'pending'"
        " and d.due_at = p.next_at then 1 else 0 end) as next_ones"
        " from duly.progress p join duly.deliveries d on d.schedule = p.schedule"
        " group by p.schedule, p.runs) x join duly.schedules s on s.id = x.schedule"
        " group by 1, 2, 3, 4, 5 order by 1"
    )
    of_behind = MISSED + 1
    assert [tuple(map(str, row)) for row in rows] == [
        ("beh", "1", *[str(of_behind)] * 3, str(BEHIND)),
        ("pun", "1", "2", "2", "2", str(PUNCTUAL)),
    ]
    assert await count(store, "agenda") == await count(store, "deliveries")
