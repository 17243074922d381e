"""The planner: every schedule has its next occurrence, whatever the clock does."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.domain.events import (
    ClockIsBehind,
    ClockStepped,
    Event,
    SchedulesPlanned,
    ScheduleUnreadable,
    SweptUp,
    ZoneDataChanged,
)
from duly.domain.time.rules import at, cron, every, yearly
from duly.domain.time.zones import fingerprint, zone_data_version
from duly.engine.planner import AGAIN_SECONDS, LOOK_AGAIN_SECONDS
from duly.testing import VirtualClock, run_until_idle
from tests.engine.cluster import Barrier, Cluster, WorkerProcess, states
from tests.engine.conftest import START
from tests.stores.schedule_probe import sql_moment
from tests.stores.store_probe import StoreProbe

QUARTERS = cron("*/15 * * * *")
SECOND, MINUTE, HOUR, DAY = (
    timedelta(seconds=1),
    timedelta(minutes=1),
    timedelta(hours=1),
    timedelta(days=1),
)


class Worker:
    """A process that records handled deliveries and all events."""

    def __init__(self, cluster: Cluster, **settings: Any) -> None:
        self.cluster = cluster
        self.clock: VirtualClock = cluster.clock
        self.app: App = cluster.app(**settings)
        self.events: list[Event] = []
        self.handled: list[tuple[datetime, int]] = []
        emit = self.app.telemetry.emit
        self.app.telemetry.emit = lambda event: (self.events.append(event), emit(event))[1]  # type: ignore[method-assign]
        self.process: WorkerProcess

        @self.app.handler("work", retry=duly.delays(600))
        async def work(delivery: Delivery[Any]) -> None:
            assert delivery.scheduled_for is not None
            self.handled.append((delivery.scheduled_for, delivery.merged))

    async def open(self) -> None:
        await self.app.open()

    async def begin(self) -> None:
        """Start a worker without its loops."""
        self.process = await self.cluster.start_worker(self.app)

    async def declare(self, name: str, rule: Any, payload: Any = None, **options: Any) -> None:
        await self.app.schedule(name, rule, "work", payload, **options)

    async def tick(self) -> float:
        """One tick of the planner; returns how long it would wait."""
        return (await self.process.engine.worker.planner.tick()).seconds

    async def work(self) -> int:
        """Run everything that is due."""
        return await run_until_idle(self.app)

    async def sql(self, text: str) -> list[dict[str, Any]]:
        return await StoreProbe(self.app.store, self.clock).sql(text)  # type: ignore[arg-type]

    async def occurrences(self) -> list[str]:
        rows = await self.sql("select occurrence from duly.deliveries order by due_at")
        return [row["occurrence"] for row in rows]

    def of(self, kind: type[Event]) -> list[Any]:
        return [each for each in self.events if isinstance(each, kind)]


def minutes(many: int) -> list[str]:
    """The occurrence ids of the first minutes after the start."""
    return [f"2026-06-01T{9 + n // 60:02}:{n % 60:02}:00Z" for n in range(1, many + 1)]


def clock_times(found: list[tuple[datetime, int]]) -> list[tuple[str, int]]:
    return [(f"{at:%H:%M}", merged) for at, merged in found]


@pytest.fixture
async def worker(any_cluster: Cluster) -> Worker:
    """On each store in turn."""
    found = Worker(any_cluster)
    await found.open()
    return found


@pytest.mark.requirement("C1")
async def test_each_occurrence_is_delivered_at_its_moment_and_the_next_is_planned(
    worker: Worker,
) -> None:
    await worker.declare("often", QUARTERS)
    await worker.declare("hourly", cron("5 * * * *"))
    assert await run_until_idle(worker.app, within=HOUR) == 5
    assert sorted(clock_times(worker.handled)) == [
        (each, 0) for each in ("09:05", "09:15", "09:30", "09:45", "10:00")
    ]
    for name, following in (("often", (10, 15)), ("hourly", (10, 5))):
        progress = (await worker.app.store.schedules.get(name)).progress
        assert progress.made_at == START.replace(hour=following[0], minute=following[1])
        assert (await worker.app.get(progress.made_id or "")).state == "pending"
    assert not worker.of(ClockStepped)


async def test_the_planner_waits_until_a_schedule_is_due_but_never_long(worker: Worker) -> None:
    await worker.begin()
    assert await worker.tick() == worker.app.settings.poll
    await worker.declare("often", QUARTERS)
    assert await worker.tick() == worker.app.settings.poll
    worker.clock.advance(15 * MINUTE - 0.25 * SECOND)
    assert await worker.tick() == pytest.approx(0.25)
    worker.clock.advance(0.25)
    assert await worker.tick() == 0
    assert await worker.tick() == worker.app.settings.poll
    (planned,) = worker.of(SchedulesPlanned)
    assert (planned.schedules, planned.made, planned.merged, planned.skipped) == (1, 1, 0, 0)


@pytest.mark.requirement("D10")
@pytest.mark.parametrize("ending", ["dead", "hanging", "expired", "cancelled"])
async def test_the_next_occurrence_is_planned_however_one_ends(worker: Worker, ending: str) -> None:
    @worker.app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Delivery[Any]) -> None:
        if ending == "hanging":
            await asyncio.Event().wait()
        raise duly.Fail("not today")

    options = {"expires_after": 60} if ending == "expired" else {}
    declared = await worker.app.schedule("often", QUARTERS, "fails", **options)
    await worker.begin()
    for turn in range(1, 4):
        if ending == "cancelled":
            made = (await worker.app.store.schedules.get("often")).progress.made_id
            await worker.app.cancel(made or "")
        late = 2 * MINUTE if ending == "expired" else timedelta()
        await quarter_passes(worker, START + turn * 15 * MINUTE + late - worker.clock.now())
        if ending != "hanging":
            await worker.process.finish()
    found = await states(worker.app)
    assert found.pop("pending") == 1
    ended = {"hanging": "processing", "expired": "cancelled"}.get(ending, ending)
    assert found == {ended: 3}
    assert (await worker.app.store.schedules.get("often")).progress.runs == 4
    assert (declared.runs, declared.next_id is None) == (0, False)


@pytest.mark.requirement("C1")
async def test_a_clock_eight_minutes_back_repeats_nothing_and_is_reported(
    worker: Worker,
) -> None:
    await worker.declare("often", QUARTERS, catch_up="all")
    await worker.declare("minutes", every("1m"), catch_up="all")
    await worker.begin()
    worker.clock.advance(31 * MINUTE)
    await worker.process.engine.worker.planner.catch_up()
    made = await worker.occurrences()
    worker.clock.step(-8 * MINUTE)
    for _ in range(7):
        assert await worker.tick() > 0
        worker.clock.advance(MINUTE)
    assert await worker.occurrences() == made
    (stepped,), (behind,) = worker.of(ClockStepped), worker.of(ClockIsBehind)
    assert stepped.seconds == pytest.approx(-480)
    assert (behind.seconds, behind.planning_stops) == (pytest.approx(480), False)
    worker.clock.advance(17 * MINUTE)
    await worker.process.engine.worker.planner.catch_up()
    found = await worker.occurrences()
    assert sorted(found) == sorted([*minutes(48), *minutes(61)[14::15]])
    assert len(worker.of(ClockIsBehind)) == 1


@pytest.mark.requirement("C1")
async def test_a_clock_fifteen_minutes_back_stops_planning_but_not_deliveries(
    worker: Worker,
) -> None:
    seen: list[Any] = []

    @worker.app.handler("plain")
    async def plain(delivery: Delivery[Any]) -> None:
        seen.append(delivery.payload)

    await worker.declare("often", QUARTERS, catch_up="all")
    await worker.begin()
    worker.clock.advance(30 * MINUTE)
    await worker.process.engine.worker.planner.catch_up()
    worker.clock.step(-15 * MINUTE)
    # Created by a wrong clock: the planner would have work, and must not do it.
    await worker.declare("minutes", every("1m"))
    for _ in range(4):
        worker.clock.advance(MINUTE)
        assert await worker.tick() == worker.app.settings.poll
    assert (await worker.app.store.schedules.get("minutes")).progress.runs == 1
    (behind,) = worker.of(ClockIsBehind)
    assert behind.planning_stops
    await worker.app.deliver("plain", "continues")
    worker.process.engine.worker.membership.lease.renew(worker.clock.monotonic())
    await worker.process.tick()
    await worker.process.finish()
    assert seen == ["continues"]
    worker.clock.step(16 * MINUTE)
    assert await worker.tick() == 0
    assert (await worker.app.store.schedules.get("minutes")).progress.runs > 1


async def test_a_clock_that_goes_back_further_is_reported_again(worker: Worker) -> None:
    await worker.declare("minutes", every("1m"))
    await worker.begin()
    worker.clock.advance(30 * MINUTE)
    await worker.tick()
    for step in (-8 * MINUTE, -7 * MINUTE, 7 * MINUTE, -7 * MINUTE):
        worker.clock.step(step)
        await worker.tick()
        await worker.tick()
    assert [each.planning_stops for each in worker.of(ClockIsBehind)] == [False, True]
    assert len(worker.of(ClockStepped)) == 4
    worker.clock.step(15 * MINUTE)
    await worker.tick()
    worker.clock.step(-MINUTE)
    await worker.tick()
    assert [each.planning_stops for each in worker.of(ClockIsBehind)] == [False, True, False]


@pytest.mark.requirement("C3")
@pytest.mark.parametrize(
    ("catch_up", "handled"),
    [
        ("latest", [("09:00", 95)]),
        ("skip", [("09:00", 0)]),
        ("all", [(f"{(9 * 60 + 15 * n) // 60 % 24:02}:{15 * n % 60:02}", 0) for n in range(1, 97)]),
    ],
)
async def test_a_clock_that_steps_forward_is_handled_like_an_outage_and_reported(
    worker: Worker, catch_up: str, handled: list[tuple[str, int]]
) -> None:
    await worker.declare("often", QUARTERS, catch_up=catch_up)
    await worker.begin()
    await worker.tick()
    await worker.process.tick()
    worker.clock.step(DAY)
    # The dispatcher runs first, but merged occurrences must not be executed.
    for _ in range(3):
        await worker.process.tick()
        await worker.process.finish()
    assert clock_times(worker.handled) == handled
    (stepped,) = worker.of(ClockStepped)
    assert stepped.seconds == pytest.approx(86_400)


@pytest.mark.requirement("C3")
async def test_after_a_day_of_outage_merged_occurrences_are_not_executed(
    any_cluster: Cluster,
) -> None:
    first = Worker(any_cluster)
    await first.open()
    for catch_up in ("all", "latest", "skip"):
        await first.declare(catch_up, QUARTERS, catch_up=catch_up)
    await first.declare("birthday", yearly(6, 1, "12:00"), catch_up="skip")
    await first.declare("once", at("2026-06-01T12:00Z"), window=1)
    await first.app.close()
    any_cluster.clock.advance(DAY)
    second = Worker(any_cluster)
    assert await second.work() == 96 + 1 + 1 + 1 + 1
    assert sorted(merged for _, merged in second.handled) == [0] * 99 + [95]
    await second.open()
    counts = {}
    for catch_up in ("all", "latest", "skip"):
        progress = (await second.app.store.schedules.get(catch_up)).progress
        counts[catch_up] = (progress.runs, progress.merged, progress.skipped)
    assert counts == {"all": (97, 0, 0), "latest": (2, 95, 0), "skip": (2, 0, 95)}


async def with_barrier(cluster: Cluster, overlap: str, **options: Any) -> tuple[Worker, Barrier]:
    worker, barrier = Worker(cluster), Barrier()
    worker.app.handler("gate", retry=duly.delays(600))(barrier.handle)
    await worker.open()
    await worker.app.schedule("often", QUARTERS, "gate", overlap=overlap, **options)
    await worker.begin()
    return worker, barrier


async def quarter_passes(
    worker: Worker, by: timedelta = 15 * MINUTE, barrier: Barrier | None = None
) -> None:
    """Advance the clock and claim due deliveries; with a barrier, wait until all reached it."""
    worker.clock.advance(by)
    worker.process.engine.worker.membership.lease.renew(worker.clock.monotonic())
    await worker.process.engine.worker.planner.catch_up()
    await worker.process.tick()
    async with asyncio.timeout(10):
        while barrier is not None and worker.process.engine.running > barrier.inside:
            await asyncio.tasks.sleep(0)
    await worker.process.engine.worker.settler.flush()


def entered(barrier: Barrier) -> list[str]:
    return [each["scheduled_for"][11:16] for each in barrier.entered]


@pytest.mark.requirement("C4")
async def test_occurrences_may_overlap_by_default(any_cluster: Cluster) -> None:
    worker, barrier = await with_barrier(any_cluster, "allow")
    for _ in range(3):
        await quarter_passes(worker, barrier=barrier)
    assert (entered(barrier), barrier.inside) == (["09:15", "09:30", "09:45"], 3)
    barrier.open.set()
    await worker.process.finish()


@pytest.mark.requirement("C4")
async def test_skip_does_not_run_an_occurrence_while_an_earlier_one_is_unfinished(
    any_cluster: Cluster,
) -> None:
    worker, barrier = await with_barrier(any_cluster, "skip")
    for _ in range(3):
        await quarter_passes(worker, barrier=barrier)
    assert entered(barrier) == ["09:15"]
    assert (await worker.app.store.schedules.get("often")).progress.skipped == 2
    skipped = await worker.app.list(state="cancelled")
    assert [each.reason for each in skipped] == ["overlap"] * 2
    for each in skipped:
        assert [was.outcome for was in await worker.app.deliveries.history(each.id)] == ["skipped"]
    barrier.open.set()
    await worker.process.finish()
    await quarter_passes(worker, barrier=barrier)
    assert entered(barrier) == ["09:15", "10:00"]
    await worker.process.finish()
    assert (await worker.app.store.schedules.get("often")).progress.skipped == 2


@pytest.mark.requirement("C4")
async def test_queue_runs_occurrences_one_after_the_other(any_cluster: Cluster) -> None:
    worker, barrier = await with_barrier(any_cluster, "queue")
    for _ in range(4):
        await quarter_passes(worker, barrier=barrier)
    assert entered(barrier) == ["09:15"]
    barrier.open.set()
    for _ in range(12):
        await worker.process.finish()
        await quarter_passes(worker, 10 * SECOND, barrier)
    assert entered(barrier) == ["09:15", "09:30", "09:45", "10:00"]
    assert barrier.most_inside == 1
    done = await worker.app.list(state="completed")
    assert [each.attempt for each in done] == [1] * 4
    for each in done:
        assert [was.outcome for was in await worker.app.deliveries.history(each.id)] == [
            "completed"
        ]
    assert (await worker.app.store.schedules.get("often")).progress.skipped == 0


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("overlap", ["skip", "queue"])
async def test_a_delivery_that_waits_for_its_retry_is_unfinished(
    any_cluster: Cluster, overlap: str
) -> None:
    worker, tried = Worker(any_cluster), []

    @worker.app.handler("stumbles", retry=duly.delays(1000))
    async def stumbles(delivery: Delivery[Any]) -> None:
        tried.append((f"{delivery.scheduled_for:%H:%M}", delivery.attempt))
        if delivery.attempt == 1 and len(tried) == 1:
            raise ConnectionError("not yet")

    await worker.open()
    await worker.app.schedule("often", QUARTERS, "stumbles", overlap=overlap)
    assert await run_until_idle(worker.app, within=15 * MINUTE) == 1
    worker.clock.advance(15 * MINUTE)
    assert await worker.work() == 0
    assert tried == [("09:15", 1)]
    assert await run_until_idle(worker.app, within=14 * MINUTE) == (1 if overlap == "skip" else 2)
    if overlap == "skip":
        assert tried == [("09:15", 1), ("09:15", 2)]
        assert (await worker.app.store.schedules.get("often")).progress.skipped == 1
    else:
        assert tried == [("09:15", 1), ("09:15", 2), ("09:30", 1)]


@pytest.mark.requirement("C4")
async def test_a_retry_is_not_skipped_because_of_itself(any_cluster: Cluster) -> None:
    worker, tried = Worker(any_cluster), []

    @worker.app.handler("stumbles", retry=duly.delays(60))
    async def stumbles(delivery: Delivery[Any]) -> None:
        tried.append(delivery.attempt)
        if delivery.attempt == 1:
            raise ConnectionError("not yet")

    await worker.open()
    await worker.app.schedule("often", QUARTERS, "stumbles", overlap="skip")
    assert await run_until_idle(worker.app, within=20 * MINUTE) == 2
    assert tried == [1, 2]
    assert (await worker.app.store.schedules.get("often")).progress.skipped == 0


async def change_zone_data(worker: Worker, name: str, **columns: str) -> None:
    """Make a schedule look computed, an hour late, from other zone data."""
    probe = StoreProbe(worker.app.store, worker.clock)  # type: ignore[arg-type]
    progress = (await worker.app.store.schedules.get(name)).progress
    assert progress.made_at is not None
    wrong = sql_moment(probe, progress.made_at + HOUR)
    settings = ", ".join(f"{column} = '{value}'" for column, value in columns.items())
    await worker.sql(
        f"update duly.progress set {settings}, made_at = {wrong}, next_at = {wrong}"
        f" where schedule = (select id from duly.schedules where name = '{name}')"
    )
    await worker.sql(f"update duly.deliveries set due_at = {wrong} where id = '{progress.made_id}'")
    await worker.sql(
        f"update duly.agenda set due_at = {wrong}"
        f" where delivery = {probe.agenda_id(progress.made_id)}"  # type: ignore[arg-type]
    )


OLDER = {"zone_hash": "older", "zone_version": "2020a"}
NEWER = {"zone_hash": "newer", "zone_version": "2199a"}


@pytest.mark.requirement("C2")
async def test_new_zone_data_moves_pending_occurrences_at_the_next_start_with_an_audit_entry(
    worker: Worker,
) -> None:
    rules = {
        "cron": cron("0 14 * * *", tz="Europe/Oslo"),
        "yearly": yearly(6, 1, "14:00", tz="Europe/Oslo"),
        "at": at("2026-06-01T14:00", tz="Europe/Oslo"),
    }
    for name, rule in rules.items():
        await worker.declare(name, rule)
        await change_zone_data(worker, name, **OLDER)
    await worker.begin()
    for name in rules:
        progress = (await worker.app.store.schedules.get(name)).progress
        delivery = await worker.app.get(progress.made_id or "")
        noon = START.replace(hour=12)
        assert progress.made_at == progress.next_at == delivery.due_at == delivery.next_at == noon
    rows = await worker.sql("select zone_hash, zone_version from duly.progress")
    known = {(row["zone_hash"], row["zone_version"]) for row in rows}
    assert known == {(fingerprint("Europe/Oslo"), zone_data_version())}
    entries = [each for each in await worker.app.audit.list() if each.actor == "planner"]
    assert {(each.action, each.subject) for each in entries} == {
        ("schedule.rezoned", name) for name in rules
    }
    assert entries[0].detail == {"zone": "Europe/Oslo", "from": "2020a", "to": zone_data_version()}
    (changed,) = worker.of(ZoneDataChanged)
    assert (changed.zone, changed.schedules) == ("Europe/Oslo", 3)
    await worker.process.engine.worker.planner.at_start()
    assert len(worker.of(ZoneDataChanged)) == 1


@pytest.mark.requirement("C2")
async def test_new_zone_data_does_not_change_executed_occurrences(worker: Worker) -> None:
    await worker.declare("daily", cron("0 14 * * *", tz="Europe/Oslo"))
    await change_zone_data(worker, "daily", **OLDER)
    worker.clock.advance(4 * HOUR + SECOND)
    await worker.begin()
    await worker.process.engine.worker.planner.catch_up()
    await worker.process.tick()
    await worker.process.finish()
    (done,) = await worker.app.list(state="completed")
    await worker.sql("update duly.progress set zone_hash = 'older', zone_version = '2020a'")
    await worker.process.engine.worker.planner.at_start()
    assert await worker.app.get(done.id) == done
    assert len(await worker.app.list()) == 2


@pytest.mark.requirement("C2")
async def test_an_instance_with_older_zone_data_undoes_nothing(worker: Worker) -> None:
    await worker.declare("daily", cron("0 14 * * *", tz="Europe/Oslo"))
    await change_zone_data(worker, "daily", **NEWER)
    before = await worker.app.store.schedules.get("daily")
    await worker.begin()
    assert await worker.app.store.schedules.get("daily") == before
    assert worker.of(ZoneDataChanged) == []


@pytest.mark.requirement("C2")
async def test_plans_of_an_older_instance_have_its_zone_version(worker: Worker) -> None:
    """Otherwise a newer instance would never compute them again."""
    await worker.declare("daily", cron("0 14 * * *", tz="Europe/Oslo"))
    await worker.sql("update duly.progress set zone_hash = 'newer', zone_version = '2199a'")
    await worker.begin()
    worker.clock.advance(DAY)
    await worker.process.engine.worker.planner.catch_up()
    (row,) = await worker.sql("select zone_hash from duly.progress")
    assert row["zone_hash"] == fingerprint("Europe/Oslo")


@pytest.mark.requirement("C2", "D3")
async def test_an_unknown_zone_or_rule_does_not_prevent_a_start(
    worker: Worker,
) -> None:
    oslo = cron("0 14 * * *", tz="Europe/Oslo")
    for name in ("apple", "lunar", "mars", "pear"):
        await worker.declare(name, oslo)
    for name in ("apple", "lunar", "pear"):
        await change_zone_data(worker, name, **OLDER)
    await worker.sql("update duly.schedules set rule = '{\"kind\":\"lunar\"}' where name = 'lunar'")
    for version in ("2199a", "2020a"):
        await worker.sql(
            "update duly.progress set zone = 'Mars/Olympus', zone_hash = 'red',"
            f" zone_version = '{version}'"
            " where schedule = (select id from duly.schedules where name = 'mars')"
        )
        await worker.app.engine().worker.planner.at_start()
    for name in ("apple", "pear"):
        progress = (await worker.app.store.schedules.get(name)).progress
        assert progress.made_at == START.replace(hour=12)


@pytest.mark.requirement("D3")
async def test_an_unreadable_schedule_is_reported_once_and_others_continue(
    worker: Worker,
) -> None:
    for name in ("apple", "lunar", "pear"):
        await worker.declare(name, QUARTERS)
    await worker.sql("update duly.schedules set rule = '{\"kind\":\"lunar\"}' where name = 'lunar'")
    before = await worker.sql("select * from duly.schedules where name = 'lunar'")
    await worker.begin()
    for _ in range(12):
        worker.clock.advance(15 * MINUTE)
        await worker.process.engine.worker.planner.catch_up()
        await worker.tick()
    (event,) = worker.of(ScheduleUnreadable)
    assert event.schedule == "lunar"
    assert "lunar" in event.problem
    assert await worker.sql("select * from duly.schedules where name = 'lunar'") == before
    for name in ("apple", "pear"):
        assert (await worker.app.store.schedules.get(name)).progress.runs == 13
    # After a repair it is planned within a minute, and catches up.
    (apple,) = await worker.sql("select rule from duly.schedules where name = 'apple'")
    await worker.sql(f"update duly.schedules set rule = '{apple['rule']}' where name = 'lunar'")
    worker.clock.advance(LOOK_AGAIN_SECONDS + 1)
    await worker.tick()
    progress = (await worker.app.store.schedules.get("lunar")).progress
    assert (progress.runs, progress.merged) == (2, 11)


@pytest.mark.requirement("D15")
async def test_the_sweeper_restores_and_counts_a_missing_next_occurrence(
    worker: Worker,
) -> None:
    await worker.declare("often", QUARTERS)
    await worker.begin()
    await worker.sql("delete from duly.agenda")
    await worker.sql("delete from duly.deliveries")
    (sweeper,) = [each for each in worker.process.engine._loops if each.name == "sweeper"]
    for _ in range(3):
        await sweeper.tick()
    (swept,) = worker.of(SweptUp)
    assert (swept.schedule_without_next, swept.without_lane) == (1, 0)
    assert await run_until_idle(worker.app, within=15 * MINUTE) == 1
    assert clock_times(worker.handled) == [("09:15", 0)]


async def test_a_start_waits_for_a_concurrent_planner(postgres_url: str) -> None:
    clock = VirtualClock(START)
    cluster = Cluster(postgres_url, clock)
    first, second = Worker(cluster), Worker(cluster)
    await first.open()
    await second.open()
    await first.declare("often", QUARTERS, catch_up="all")
    clock.advance(HOUR)
    async with first.app.store.plans.lock_due(clock.now(), 10, []) as locked:
        assert len(locked.due) == 1
        engine = second.app.engine()
        start = asyncio.create_task(engine.worker.planner.at_start())
        for _ in range(50):
            await asyncio.tasks.sleep(0)
        assert not start.done(), "it would claim occurrences that will be merged"
        assert (await engine.worker.planner.tick()).seconds == AGAIN_SECONDS
    async with asyncio.timeout(20):
        await start
    assert (await first.app.store.schedules.get("often")).progress.runs == 5
    await cluster.close()


async def test_a_hanging_planner_does_not_block_a_start_forever(postgres_url: str) -> None:
    clock = VirtualClock(START, sleeping_moves_it=True)
    cluster = Cluster(postgres_url, clock)
    first, second = Worker(cluster), Worker(cluster)
    await first.open()
    await second.open()
    await first.declare("often", QUARTERS)
    clock.advance(HOUR)
    async with first.app.store.plans.lock_due(clock.now(), 10, []), asyncio.timeout(30):
        await second.app.engine().worker.planner.at_start()
    assert clock.now() - START > HOUR + 29 * SECOND
    await cluster.close()


async def test_a_real_engine_plans_by_itself(database_url: str) -> None:
    """With its loops and the real clock, every second."""
    app, handled_one = App(database_url, environment={}, poll=0.05), asyncio.Semaphore(0)
    moments: list[datetime] = []

    @app.schedule(every("1s"))
    @app.handler("tick")
    async def tick(delivery: Delivery[Any]) -> None:
        assert delivery.scheduled_for is not None
        moments.append(delivery.scheduled_for)
        handled_one.release()

    async with app:
        engine = app.engine()
        await engine.start()
        async with asyncio.timeout(20):
            for _ in range(3):
                await handled_one.acquire()
        await engine.stop()
    assert moments == [moments[0] + n * SECOND for n in range(len(moments))]
    assert datetime.now(UTC) - moments[-1] < 10 * SECOND
