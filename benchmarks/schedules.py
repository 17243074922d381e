"""The cost of planning: a hundred thousand due at once, during other work, after a long outage.

python -m benchmarks.schedules [--stored 1000000] [--due 100000] [--store postgresql|sqlite]
"""

import argparse
import asyncio
import logging
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import uvloop

import duly
from benchmarks.places import folder, fresh, server
from benchmarks.windows import WINDOW_SECONDS, Waited, p99s, typical_p99
from duly.domain.time.rules import encode_rule
from duly.domain.time.zones import fingerprint, zone_data_version
from duly.stores.sqlite.database import Sqlite

ZONE = "Europe/Oslo"
REST_SECONDS = 30.0
ROUNDS = 3


async def store_yearly(app: duly.App, count: int, due: int) -> None:
    """Store yearly schedules with SQL, each with its pending occurrence.

    The first `due` of them are due at nine this morning, the others at nine on other days.
    """
    now = datetime.now(UTC)
    number = (await app.store.targets.numbers(["greet"], create=True))["greet"]
    today = duly.yearly(now.month, now.day, "09:00", ZONE).of_year(now.year)
    assert today is not None
    made_at = min(today.at, now - timedelta(seconds=1))
    for start in range(0, count, 20_000):
        rows = []
        for each in range(start, min(start + 20_000, count)):
            day = now + timedelta(days=0 if each < due else 2 + each % 360)
            rule = duly.yearly(
                day.month, min(day.day, 28) if each >= due else day.day, "09:00", ZONE
            )
            at = made_at if each < due else day
            rows.append((f"s{each:07}", encode_rule(rule), at, app.chance.delivery_id()))
        await _insert(app, number, rows, str(now.year))
    await _analyze(app)


async def _insert(app: duly.App, target: int, rows: list[Any], year: str) -> None:
    database: Any = app.store.database  # type: ignore[attr-defined]
    zone = (ZONE, fingerprint(ZONE), zone_data_version())
    if isinstance(database, Sqlite):
        await database.write(
            lambda connection: _insert_sqlite(connection, target, rows, year, zone)
        )
        return
    async with database.shared() as connection, connection.transaction():
        columns = [list(each) for each in zip(*rows, strict=True)]
        await connection.execute(POSTGRES_SCHEDULES, *columns, target, year, *zone, _later())
        await connection.execute(POSTGRES_DELIVERIES, columns[0], target)


POSTGRES_SCHEDULES = """
with stored as (
    insert into duly.schedules (namespace, name, rule, catch_up, catch_up_cap, overlap, jitter,
        target, priority, created_at, updated_at)
    select 'default', t.name, t.rule, 'latest', 1000, 'allow', 0, $5, 5, now(), now()
    from unnest($1::text[], $2::text[]) as t(name, rule)
    returning id, name
)
insert into duly.progress (schedule, namespace, fired_at, made, made_at, made_id, next_at, runs,
    zone, zone_hash, zone_version)
select s.id, 'default', t.at - interval '1 day', $6::text, t.at, t.id, greatest(t.at, $10), 1,
       $7::text, $8::text, $9::text
from stored s join unnest($1::text[], $3::timestamptz[], $4::uuid[]) as t(name, at, id)
    on t.name = s.name"""
POSTGRES_DELIVERIES = """
with stored as (
    insert into duly.deliveries (id, target, priority, namespace, schedule, occurrence, occasion,
        due_at, accepted_at, payload)
    select p.made_id, $2, 5, 'default', s.id, p.made,
           json_build_object('schedule', s.name, 'scheduled_for', p.made_at, 'merged', 0,
                             'overlap', 'allow')::text, p.made_at, now(), 'null'
    from duly.schedules s join duly.progress p on p.schedule = s.id
    where s.name = any($1::text[]) and s.namespace = 'default'
    returning id, target, priority, due_at
)
insert into duly.agenda (lane, delivery, target, priority, due_at)
select id, id, target, priority, due_at from stored"""


def _insert_sqlite(
    connection: Any, target: int, rows: list[Any], year: str, zone: tuple[str, str, str]
) -> None:
    later = round(_later().timestamp() * 1e6)
    for name, rule, moment, id in rows:
        at = round(moment.timestamp() * 1e6)
        connection.execute(
            "insert into duly_schedules (namespace, name, rule, catch_up, catch_up_cap, overlap,"
            " jitter, target, priority, created_at, updated_at)"
            " values ('default', ?, ?, 'latest', 1000, 'allow', 0, ?, 5, 0, 0)",
            (name, rule, target),
        )
        connection.execute(
            "insert into duly_progress (schedule, namespace, fired_at, made, made_at, made_id,"
            " next_at, zone, zone_hash, zone_version, runs)"
            " values (last_insert_rowid(), 'default', ?, ?, ?, ?, ?, ?, ?, ?, 1)",
            (at - 86_400_000_000, year, at, id, max(at, later), *zone),
        )
        connection.execute(
            "insert into duly_deliveries (id, target, priority, namespace, schedule, occurrence,"
            " occasion, due_at, accepted_at, payload) values (?, ?, 5, 'default',"
            " last_insert_rowid(), ?, ?, ?, 0, 'null')",
            (id, target, year, _occasion(name, moment), at),
        )


def _later() -> datetime:
    """A time at which the planner does not plan yet."""
    return datetime.now(UTC) + timedelta(days=1)


def _occasion(name: str, moment: datetime) -> str:
    return (
        f'{{"schedule":"{name}","scheduled_for":"{moment.isoformat()}","merged":0,'
        '"overlap":"allow"}'
    )


async def _analyze(app: duly.App) -> None:
    database: Any = app.store.database  # type: ignore[attr-defined]
    if not isinstance(database, Sqlite):
        async with database.shared() as connection:
            for table in ("schedules", "progress", "deliveries", "agenda"):
                await connection.execute(f"vacuum (analyze) duly.{table}", timeout=300)
            # Otherwise the server would still be writing a million new rows during the measurement.
            await connection.execute("checkpoint", timeout=300)


class Others:
    """Other deliveries during planning: a constant rate, and how long each waited to start."""

    def __init__(self, app: duly.App) -> None:
        self._app = app
        self._requested_at: dict[int, float] = {}
        self._number = 0
        self.waits: list[Waited] = []
        app.handler("other")(self._start)

    async def _start(self, delivery: duly.Delivery[int]) -> None:
        requested_at = self._requested_at.pop(delivery.payload)
        self.waits.append((requested_at, time.perf_counter() - requested_at))

    async def trickle(self, until: Callable[[], Awaitable[bool]]) -> list[Waited]:
        """Deliver two hundred a second until `until` returns True; returns the waits."""
        self.waits = []
        # Checked once a second: for each delivery, the check itself would be the load.
        while not await until():
            for _ in range(200):
                self._number += 1
                self._requested_at[self._number] = time.perf_counter()
                await self._app.deliver("other", self._number)
                await asyncio.sleep(0.005)
        return self.waits


async def plan_all(app: duly.App) -> float:
    """The seconds that the planner takes for everything that is due to be planned."""
    planner = app.engine().worker.planner
    started = time.perf_counter()
    while (await planner.tick()).seconds == 0.0:
        pass
    return time.perf_counter() - started


async def deliver(app: duly.App, count: int) -> float:
    """The seconds for one delivery, when this many are delivered."""
    before, running = app.telemetry.counts["completed"], asyncio.create_task(app.run())
    started = time.perf_counter()
    while app.telemetry.counts["completed"] - before < count:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    each = (time.perf_counter() - started) / (app.telemetry.counts["completed"] - before)
    app.stop()
    await running
    return each


async def burst(url: str, stored: int, due: int) -> None:
    """Plan everything that is due at once, during other work and alone, and deliver it."""
    app = duly.App(url)
    app.expect("greet")
    others = Others(app)
    async with app:
        await store_yearly(app, stored, due)
        rest, busy, seconds = await during_other_work(app, others, due)
    alone, delivering = await in_turn(url, due)
    print(
        f"  {stored:,} stored, {due:,} due at once: planned in {seconds:.1f} s during other work,"
    )
    print(
        f"    {alone:.1f} s alone; delivered in {delivering:.1f} s: planning costs "
        f"{alone / delivering:.2f} of delivering (wanted: at most 1)"
    )
    print(
        f"    other work, requested to started, p99 of {WINDOW_SECONDS:g} s in the middle: "
        f"{typical_p99(rest) * 1000:.1f} ms at rest, {typical_p99(busy) * 1000:.1f} ms meanwhile: "
        f"{typical_p99(busy) / typical_p99(rest):.2f} times (wanted: 2); "
        f"the worst {max(p99s(rest)) * 1000:.1f} and {max(p99s(busy)) * 1000:.1f} ms"
    )


async def in_turn(url: str, due: int) -> tuple[float, float]:
    """Seconds to plan and to deliver, in turn, so that a slow minute affects both."""
    planner, worker = duly.App(url), duly.App(url)
    planner.expect("greet")
    worker.handler("greet")(_greet)
    planned, delivered = [], []
    for _ in range(ROUNDS):
        async with planner:
            await bring_forward(planner, due)
            planned.append(await plan_all(planner))
        async with worker:
            delivered.append(await deliver(worker, due // (ROUNDS + 1)))
    return statistics.median(planned), due * statistics.median(delivered)


async def during_other_work(
    app: duly.App, others: Others, due: int
) -> tuple[list[Waited], list[Waited], float]:
    """Waits of other deliveries without and with planning, and the time of planning."""
    running = asyncio.create_task(app.run())
    begun = time.perf_counter()

    async def long_enough() -> bool:
        # The same query as in the other trickle, so that both have the same load.
        await app.store.plans.is_behind(datetime.now(UTC), [])
        return time.perf_counter() - begun > REST_SECONDS

    async def all_planned() -> bool:
        return not await app.store.plans.is_behind(datetime.now(UTC), [])

    await others.trickle(long_enough)  # to warm up
    begun = time.perf_counter()
    rest = await others.trickle(long_enough)
    await bring_forward(app, due)
    started = time.perf_counter()
    busy = await others.trickle(all_planned)
    seconds = time.perf_counter() - started
    app.stop()
    await running
    return rest, busy, seconds


async def bring_forward(app: duly.App, due: int) -> None:
    """Make the next occurrence of this many schedules due to be planned."""
    database: Any = app.store.database  # type: ignore[attr-defined]
    if isinstance(database, Sqlite):
        sql = "update duly_progress set next_at = 1 where schedule <= ?"
        await database.write(lambda connection: connection.execute(sql, (due,)))
    else:
        async with database.shared() as connection:
            sql = "update duly.progress set next_at = 'epoch' where schedule <= $1"
            await connection.execute(sql, due)


async def _greet(delivery: duly.Delivery[object]) -> None:
    pass


async def absence(url: str) -> None:
    """A schedule of every second after thirty days of outage."""
    async with duly.App(url) as app:
        app.expect("tick")
        await app.schedule("tick", duly.cron("* * * * * *"), "tick")
        back = timedelta(days=30)
        await set_back(app, back)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds = await plan_all(app)
        grew = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        schedule = await app.schedules.get("tick")
    print(
        f"  every second, 30 days of outage: {schedule.merged:,} merged in "
        f"{seconds * 1000:.0f} ms and {grew:.1f} MB (wanted: 1 s, 50 MB)"
    )


async def set_back(app: duly.App, by: timedelta) -> None:
    """Make the only schedule look planned that long ago."""
    database: Any = app.store.database  # type: ignore[attr-defined]
    seconds = by.total_seconds()
    if isinstance(database, Sqlite):
        shift = round(seconds * 1e6)
        await database.write(
            lambda connection: connection.execute(
                "update duly_progress set fired_at = fired_at - ?, made_at = made_at - ?, "
                "next_at = next_at - ?",
                (shift, shift, shift),
            )
        )
        return
    async with database.shared() as connection:
        await connection.execute(
            "update duly.progress set fired_at = fired_at - $1::interval, made_at = made_at - $1, "
            "next_at = next_at - $1",
            by,
        )


async def main(kinds: list[str], stored: int, due: int) -> None:
    """Measure each store."""
    with server() as postgres, folder() as place:
        for kind in kinds:
            print(f"{kind}:")
            await burst(await fresh(kind, postgres, place), stored, due)
            await absence(await fresh(kind, postgres, place))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=["postgresql", "sqlite"], action="append")
    arguments.add_argument("--stored", type=int, default=1_000_000)
    arguments.add_argument("--due", type=int, default=100_000)
    given = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.CRITICAL)
    uvloop.install()
    asyncio.run(main(given.store or ["postgresql", "sqlite"], given.stored, given.due))
