"""The planner at work: the next occurrence always on the agenda, whatever the clock does."""

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
from tests.engine.conftest import START
from tests.engine.house import Gate, House, Life, states
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
    """A process that notes what its handler is given, and everything that it tells."""

    def __init__(self, house: House, **settings: Any) -> None:
        self.house = house
        self.clock: VirtualClock = house.clock
        self.app: App = house.app(**settings)
        self.told: list[Event] = []
        self.handled: list[tuple[datetime, int]] = []
        emit = self.app.telemetry.emit
        self.app.telemetry.emit = lambda event: (self.told.append(event), emit(event))[1]  # type: ignore[method-assign]
        self.life: Life

        @self.app.handler("work", retry=duly.delays(600))
        async def work(delivery: Delivery[Any]) -> None:
            assert delivery.scheduled_for is not None
            self.handled.append((delivery.scheduled_for, delivery.merged))

    async def open(self) -> None:
        await self.app.open()

    async def begin(self) -> None:
        """Start a worker, but without its loops."""
        self.life = await self.house.born(self.app)

    async def declare(self, name: str, rule: Any, payload: Any = None, **options: Any) -> None:
        await self.app.schedule(name, rule, "work", payload, **options)

    async def tick(self) -> float:
        """One look of the planner; returns how long it would wait."""
        return (await self.life.engine.worker.planner.tick()).seconds

    async def work(self) -> int:
        """Deliver all that is due."""
        return await run_until_idle(self.app)

    async def sql(self, text: str) -> list[dict[str, Any]]:
        return await StoreProbe(self.app.store, self.clock).sql(text)  # type: ignore[arg-type]

    async def occurrences(self) -> list[str]:
        rows = await self.sql("select occurrence from duly.deliveries order by due_at")
        return [row["occurrence"] for row in rows]

    def of(self, kind: type[Event]) -> list[Any]:
        return [each for each in self.told if isinstance(each, kind)]


def minutes(many: int) -> list[str]:
    """The identities of the first minutes after the start."""
    return [f"2026-06-01T{9 + n // 60:02}:{n % 60:02}:00Z" for n in range(1, many + 1)]


def clock_times(found: list[tuple[datetime, int]]) -> list[tuple[str, int]]:
    return [(f"{at:%H:%M}", merged) for at, merged in found]


@pytest.fixture
async def worker(any_house: House) -> Worker:
    """On each store in turn."""
    found = Worker(any_house)
    await found.open()
    return found


@pytest.mark.requirement("C1")
async def test_each_occurrence_is_delivered_at_its_moment_and_the_next_is_there(
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


async def test_the_planner_waits_until_something_is_due_but_never_long(worker: Worker) -> None:
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
async def test_however_one_ends_the_next_is_made(worker: Worker, ending: str) -> None:
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
            await worker.life.finish()
    found = await states(worker.app)
    assert found.pop("pending") == 1
    ended = {"hanging": "processing", "expired": "cancelled"}.get(ending, ending)
    assert found == {ended: 3}
    assert (await worker.app.store.schedules.get("often")).progress.runs == 4
    assert (declared.runs, declared.next_id is None) == (0, False)


@pytest.mark.requirement("C1")
async def test_a_clock_that_steps_back_eight_minutes_repeats_nothing_and_is_told(
    worker: Worker,
) -> None:
    await worker.declare("often", QUARTERS, catch_up="all")
    await worker.declare("minutes", every("1m"), catch_up="all")
    await worker.begin()
    worker.clock.advance(31 * MINUTE)
    await worker.life.engine.worker.planner.catch_up()
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
    await worker.life.engine.worker.planner.catch_up()
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
    await worker.life.engine.worker.planner.catch_up()
    worker.clock.step(-15 * MINUTE)
    # Made by a clock that is wrong: the planner would have something to do, and does not.
    await worker.declare("minutes", every("1m"))
    for _ in range(4):
        worker.clock.advance(MINUTE)
        assert await worker.tick() == worker.app.settings.poll
    assert (await worker.app.store.schedules.get("minutes")).progress.runs == 1
    (behind,) = worker.of(ClockIsBehind)
    assert behind.planning_stops
    await worker.app.deliver("plain", "goes on")
    worker.life.engine.worker.membership.lease.renew(worker.clock.monotonic())
    await worker.life.tick()
    await worker.life.finish()
    assert seen == ["goes on"]
    worker.clock.step(16 * MINUTE)
    assert await worker.tick() == 0
    assert (await worker.app.store.schedules.get("minutes")).progress.runs > 1


async def test_a_clock_that_goes_back_still_further_is_told_again(worker: Worker) -> None:
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
async def test_a_clock_that_steps_forward_takes_the_way_of_an_outage_and_is_told(
    worker: Worker, catch_up: str, handled: list[tuple[str, int]]
) -> None:
    await worker.declare("often", QUARTERS, catch_up=catch_up)
    await worker.begin()
    await worker.tick()
    await worker.life.tick()
    worker.clock.step(DAY)
    # The dispatcher comes first, and yet what is merged must not go out.
    for _ in range(3):
        await worker.life.tick()
        await worker.life.finish()
    assert clock_times(worker.handled) == handled
    (stepped,) = worker.of(ClockStepped)
    assert stepped.seconds == pytest.approx(86_400)


@pytest.mark.requirement("C3")
async def test_after_a_day_away_what_is_merged_never_goes_out(any_house: House) -> None:
    first = Worker(any_house)
    await first.open()
    for catch_up in ("all", "latest", "skip"):
        await first.declare(catch_up, QUARTERS, catch_up=catch_up)
    await first.declare("birthday", yearly(6, 1, "12:00"), catch_up="skip")
    await first.declare("once", at("2026-06-01T12:00Z"), window=1)
    await first.app.close()
    any_house.clock.advance(DAY)
    second = Worker(any_house)
    assert await second.work() == 96 + 1 + 1 + 1 + 1
    assert sorted(merged for _, merged in second.handled) == [0] * 99 + [95]
    await second.open()
    counts = {}
    for catch_up in ("all", "latest", "skip"):
        progress = (await second.app.store.schedules.get(catch_up)).progress
        counts[catch_up] = (progress.runs, progress.merged, progress.skipped)
    assert counts == {"all": (97, 0, 0), "latest": (2, 95, 0), "skip": (2, 0, 95)}


async def gated(house: House, overlap: str, **options: Any) -> tuple[Worker, Gate]:
    worker, gate = Worker(house), Gate()
    worker.app.handler("gate", retry=duly.delays(600))(gate.handle)
    await worker.open()
    await worker.app.schedule("often", QUARTERS, "gate", overlap=overlap, **options)
    await worker.begin()
    return worker, gate


async def quarter_passes(
    worker: Worker, by: timedelta = 15 * MINUTE, gate: Gate | None = None
) -> None:
    """Time passes, and whatever is due is claimed; with a gate, all stands at it or is over."""
    worker.clock.advance(by)
    worker.life.engine.worker.membership.lease.renew(worker.clock.monotonic())
    await worker.life.engine.worker.planner.catch_up()
    await worker.life.tick()
    async with asyncio.timeout(10):
        while gate is not None and worker.life.engine.running > gate.inside:
            await asyncio.tasks.sleep(0)
    await worker.life.engine.worker.settler.flush()


def entered(gate: Gate) -> list[str]:
    return [each["scheduled_for"][11:16] for each in gate.entered]


@pytest.mark.requirement("C4")
async def test_without_a_word_occurrences_may_overlap(any_house: House) -> None:
    worker, gate = await gated(any_house, "allow")
    for _ in range(3):
        await quarter_passes(worker, gate=gate)
    assert (entered(gate), gate.inside) == (["09:15", "09:30", "09:45"], 3)
    gate.open.set()
    await worker.life.finish()


@pytest.mark.requirement("C4")
async def test_skip_does_not_run_what_falls_due_while_an_earlier_one_is_unfinished(
    any_house: House,
) -> None:
    worker, gate = await gated(any_house, "skip")
    for _ in range(3):
        await quarter_passes(worker, gate=gate)
    assert entered(gate) == ["09:15"]
    assert (await worker.app.store.schedules.get("often")).progress.skipped == 2
    skipped = await worker.app.list(state="cancelled")
    assert [each.reason for each in skipped] == ["overlap"] * 2
    for each in skipped:
        assert [was.outcome for was in await worker.app.deliveries.history(each.id)] == ["skipped"]
    gate.open.set()
    await worker.life.finish()
    await quarter_passes(worker, gate=gate)
    assert entered(gate) == ["09:15", "10:00"]
    await worker.life.finish()
    assert (await worker.app.store.schedules.get("often")).progress.skipped == 2


@pytest.mark.requirement("C4")
async def test_queue_lets_them_wait_and_then_run_in_their_order(any_house: House) -> None:
    worker, gate = await gated(any_house, "queue")
    for _ in range(4):
        await quarter_passes(worker, gate=gate)
    assert entered(gate) == ["09:15"]
    gate.open.set()
    for _ in range(12):
        await worker.life.finish()
        await quarter_passes(worker, 10 * SECOND, gate)
    assert entered(gate) == ["09:15", "09:30", "09:45", "10:00"]
    assert gate.most_inside == 1
    done = await worker.app.list(state="completed")
    assert [each.attempt for each in done] == [1] * 4
    for each in done:
        assert [was.outcome for was in await worker.app.deliveries.history(each.id)] == [
            "completed"
        ]
    assert (await worker.app.store.schedules.get("often")).progress.skipped == 0


@pytest.mark.requirement("C4")
@pytest.mark.parametrize("overlap", ["skip", "queue"])
async def test_one_that_waits_for_its_retry_is_unfinished(any_house: House, overlap: str) -> None:
    worker, tried = Worker(any_house), []

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
async def test_what_its_own_retry_brings_back_is_not_skipped(any_house: House) -> None:
    worker, tried = Worker(any_house), []

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


async def computed_otherwise(worker: Worker, name: str, **columns: str) -> None:
    """As if the schedule had been computed, an hour late, from other zone data."""
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
async def test_new_zone_data_moves_what_is_pending_at_the_next_start_with_an_audit_entry(
    worker: Worker,
) -> None:
    rules = {
        "cron": cron("0 14 * * *", tz="Europe/Oslo"),
        "yearly": yearly(6, 1, "14:00", tz="Europe/Oslo"),
        "at": at("2026-06-01T14:00", tz="Europe/Oslo"),
    }
    for name, rule in rules.items():
        await worker.declare(name, rule)
        await computed_otherwise(worker, name, **OLDER)
    await worker.begin()
    for name in rules:
        progress = (await worker.app.store.schedules.get(name)).progress
        booked = await worker.app.get(progress.made_id or "")
        noon = START.replace(hour=12)
        assert progress.made_at == progress.next_at == booked.due_at == booked.next_at == noon
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
    await worker.life.engine.worker.planner.at_start()
    assert len(worker.of(ZoneDataChanged)) == 1


@pytest.mark.requirement("C2")
async def test_new_zone_data_leaves_alone_what_went_out(worker: Worker) -> None:
    await worker.declare("daily", cron("0 14 * * *", tz="Europe/Oslo"))
    await computed_otherwise(worker, "daily", **OLDER)
    worker.clock.advance(4 * HOUR + SECOND)
    await worker.begin()
    await worker.life.engine.worker.planner.catch_up()
    await worker.life.tick()
    await worker.life.finish()
    (done,) = await worker.app.list(state="completed")
    await worker.sql("update duly.progress set zone_hash = 'older', zone_version = '2020a'")
    await worker.life.engine.worker.planner.at_start()
    assert await worker.app.get(done.id) == done
    assert len(await worker.app.list()) == 2


@pytest.mark.requirement("C2")
async def test_an_instance_with_older_zone_data_undoes_nothing(worker: Worker) -> None:
    await worker.declare("daily", cron("0 14 * * *", tz="Europe/Oslo"))
    await computed_otherwise(worker, "daily", **NEWER)
    before = await worker.app.store.schedules.get("daily")
    await worker.begin()
    assert await worker.app.store.schedules.get("daily") == before
    assert worker.of(ZoneDataChanged) == []


@pytest.mark.requirement("C2")
async def test_what_an_older_instance_planned_is_known_as_such(worker: Worker) -> None:
    """Or a newer one, seeing its own mark on the row, would never compute it anew."""
    await worker.declare("daily", cron("0 14 * * *", tz="Europe/Oslo"))
    await worker.sql("update duly.progress set zone_hash = 'newer', zone_version = '2199a'")
    await worker.begin()
    worker.clock.advance(DAY)
    await worker.life.engine.worker.planner.catch_up()
    (row,) = await worker.sql("select zone_hash from duly.progress")
    assert row["zone_hash"] == fingerprint("Europe/Oslo")


@pytest.mark.requirement("C2", "D3")
async def test_a_zone_or_rule_from_the_future_does_not_keep_anyone_from_starting(
    worker: Worker,
) -> None:
    oslo = cron("0 14 * * *", tz="Europe/Oslo")
    for name in ("apple", "lunar", "mars", "pear"):
        await worker.declare(name, oslo)
    for name in ("apple", "lunar", "pear"):
        await computed_otherwise(worker, name, **OLDER)
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
async def test_what_cannot_be_read_is_told_once_and_left_alone_while_others_go_on(
    worker: Worker,
) -> None:
    for name in ("apple", "lunar", "pear"):
        await worker.declare(name, QUARTERS)
    await worker.sql("update duly.schedules set rule = '{\"kind\":\"lunar\"}' where name = 'lunar'")
    before = await worker.sql("select * from duly.schedules where name = 'lunar'")
    await worker.begin()
    for _ in range(12):
        worker.clock.advance(15 * MINUTE)
        await worker.life.engine.worker.planner.catch_up()
        await worker.tick()
    (told,) = worker.of(ScheduleUnreadable)
    assert told.schedule == "lunar"
    assert "lunar" in told.problem
    assert await worker.sql("select * from duly.schedules where name = 'lunar'") == before
    for name in ("apple", "pear"):
        assert (await worker.app.store.schedules.get(name)).progress.runs == 13
    # Somebody mends it: within a minute it is planned again, and what it missed is caught up.
    (apple,) = await worker.sql("select rule from duly.schedules where name = 'apple'")
    await worker.sql(f"update duly.schedules set rule = '{apple['rule']}' where name = 'lunar'")
    worker.clock.advance(LOOK_AGAIN_SECONDS + 1)
    await worker.tick()
    progress = (await worker.app.store.schedules.get("lunar")).progress
    assert (progress.runs, progress.merged) == (2, 11)


@pytest.mark.requirement("D15")
async def test_the_sweeper_mends_and_counts_a_schedule_without_its_next_occurrence(
    worker: Worker,
) -> None:
    await worker.declare("often", QUARTERS)
    await worker.begin()
    await worker.sql("delete from duly.agenda")
    await worker.sql("delete from duly.deliveries")
    (sweeper,) = [each for each in worker.life.engine._loops if each.name == "sweeper"]
    for _ in range(3):
        await sweeper.tick()
    (swept,) = worker.of(SweptUp)
    assert (swept.schedule_without_next, swept.without_lane) == (1, 0)
    assert await run_until_idle(worker.app, within=15 * MINUTE) == 1
    assert clock_times(worker.handled) == [("09:15", 0)]


async def test_a_start_waits_for_what_another_planner_is_at(postgres_url: str) -> None:
    clock = VirtualClock(START)
    house = House(postgres_url, clock)
    first, second = Worker(house), Worker(house)
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
        assert not start.done(), "it would claim what is about to be merged"
        assert (await engine.worker.planner.tick()).seconds == AGAIN_SECONDS
    async with asyncio.timeout(20):
        await start
    assert (await first.app.store.schedules.get("often")).progress.runs == 5
    await house.close()


async def test_a_planner_that_hangs_does_not_hold_up_a_start_for_ever(postgres_url: str) -> None:
    clock = VirtualClock(START, sleeping_moves_it=True)
    house = House(postgres_url, clock)
    first, second = Worker(house), Worker(house)
    await first.open()
    await second.open()
    await first.declare("often", QUARTERS)
    clock.advance(HOUR)
    async with first.app.store.plans.lock_due(clock.now(), 10, []), asyncio.timeout(30):
        await second.app.engine().worker.planner.at_start()
    assert clock.now() - START > HOUR + 29 * SECOND
    await house.close()


async def test_a_real_engine_plans_by_itself(database_url: str) -> None:
    """With its loops, on the real clock: an interval of a second goes on and on."""
    app, said = App(database_url, environment={}, poll=0.05), asyncio.Semaphore(0)
    moments: list[datetime] = []

    @app.schedule(every("1s"))
    @app.handler("tick")
    async def tick(delivery: Delivery[Any]) -> None:
        assert delivery.scheduled_for is not None
        moments.append(delivery.scheduled_for)
        said.release()

    async with app:
        engine = app.engine()
        await engine.start()
        async with asyncio.timeout(20):
            for _ in range(3):
                await said.acquire()
        await engine.stop()
    assert moments == [moments[0] + n * SECOND for n in range(len(moments))]
    assert datetime.now(UTC) - moments[-1] < 10 * SECOND
