"""The planner's statements: shared between planners, fenced, and all or nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.domain.schedules.planning import Drop, Plan, Planned, Planning
from duly.domain.time.rules import cron, every
from duly.errors import NotFound
from duly.failpoints import FailpointRaised, arm
from duly.ports import DueSchedule
from duly.stores.postgres.database import Postgres
from duly.system import SystemChance
from duly.testing import VirtualClock
from tests.stores.schedule_probe import ScheduleProbe
from tests.stores.store_probe import START, StoreProbe, number_id, open_probe, settlement

HOURLY = cron("0 * * * *")
ONE = datetime(2026, 3, 1, 13, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
new_id = SystemChance().delivery_id


@pytest.fixture
def schedules(probe: StoreProbe) -> ScheduleProbe:
    return ScheduleProbe(probe)


@pytest.fixture
def other_schedules(other_process: StoreProbe) -> ScheduleProbe:
    """The schedules, opened by another process."""
    return ScheduleProbe(other_process)


@pytest.fixture
async def two_planners(
    emptied_postgres_url: str, clock: VirtualClock
) -> AsyncIterator[tuple[ScheduleProbe, ScheduleProbe]]:
    """Two processes on PostgreSQL; an SQLite file has only one planner, and one writer."""
    both = [await open_probe(emptied_postgres_url, clock) for _ in range(2)]
    yield ScheduleProbe(both[0]), ScheduleProbe(both[1])
    for each in both:
        await each.store.close()


async def several(schedules: ScheduleProbe, many: int, **options: object) -> None:
    for number in range(many):
        await schedules.declare(f"n{number}", HOURLY, **options)


def decided(due: DueSchedule, now: datetime, *, untouched: bool = False) -> Plan:
    assert due.timing is not None
    return Planning(due.name, due.timing, due.progress, now, new_id).plan(untouched=untouched)


@pytest.mark.requirement("C1")
async def test_due_schedules_are_ordered_by_their_next_moment(schedules: ScheduleProbe) -> None:
    await schedules.declare("later", cron("30 * * * *"))
    await schedules.declare("never", HOURLY, end=START)
    await schedules.declare("much later", cron("0 15 * * *"))
    await schedules.declare("first", every("1m"))
    await schedules.declare("paused", every("1m"))
    await schedules.service.pause("paused")
    now = START + HOUR
    async with schedules.store.plans.lock_due(now, 10, []) as locked:
        assert [each.name for each in locked.due] == ["first", "later"]
    async with schedules.store.plans.lock_due(now, 1, []) as locked:
        (first,) = locked.due
        assert (first.name, first.progress) == ("first", (await schedules.get("first")).progress)
    async with schedules.store.plans.lock_due(now, 10, [first.id]) as locked:
        assert [each.name for each in locked.due] == ["later"]
    assert await schedules.store.plans.next_at([]) == datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
    later = await schedules.get("later")
    assert await schedules.store.plans.next_at([first.id]) == later.progress.next_at
    assert await schedules.store.plans.is_behind(now, [])
    assert not await schedules.store.plans.is_behind(now, [first.id, later.id])
    assert not await schedules.store.plans.is_behind(START, [])


@pytest.mark.requirement("C1")
async def test_locked_schedules_write_occurrences_and_progress_together(
    schedules: ScheduleProbe,
) -> None:
    await schedules.declare("daily", HOURLY, catch_up="all")
    now = ONE + 2 * HOUR
    schedules.probe.clock.advance(now - START)
    async with schedules.store.plans.lock_due(now, 10, []) as locked:
        (due,) = locked.due
        untouched = await locked.untouched([due.progress.made_id])
        plan = decided(due, now, untouched=due.progress.made_id in untouched)
        locked.write(due.id, plan)
        assert len(await schedules.occurrences() if is_postgres(schedules) else ["one"]) == 1
    assert (await schedules.get()).progress == plan.progress
    assert await schedules.occurrences() == [
        f"2026-03-01T{hour}:00:00Z" for hour in (13, 14, 15, 16)
    ]
    assert await schedules.probe.count("agenda") == 4
    assert (await schedules.store.plans.clock())[1] == now


def is_postgres(schedules: ScheduleProbe) -> bool:
    return isinstance(schedules.store.database, Postgres)


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("catch_up", ["all", "latest", "skip"])
@pytest.mark.parametrize("place", ["plan.before", "plan.middle"])
async def test_a_plan_that_fails_half_way_leaves_nothing_and_is_repeated(
    schedules: ScheduleProbe, place: str, catch_up: str
) -> None:
    await several(schedules, 3, catch_up=catch_up)
    schedules.probe.clock.advance(DAY)
    before = await schedules.everything()
    arm(f"{place}=raise")
    with pytest.raises(FailpointRaised):
        await schedules.planner.catch_up()
    assert await schedules.everything() == before
    arm("")
    await schedules.planner.catch_up()
    made = {"all": 25, "latest": 2, "skip": 3}[catch_up]
    assert await schedules.probe.count("deliveries") == 3 * made
    arm("plan.after=raise")
    schedules.probe.clock.advance(DAY)
    with pytest.raises(FailpointRaised):
        await schedules.planner.catch_up()
    arm("")
    await schedules.planner.catch_up()
    for number in range(3):
        found = await schedules.occurrences(f"n{number}")
        assert len(found) == len(set(found))
        assert found[-1] == "2026-03-03T13:00:00Z"


@pytest.mark.requirement("C1")
async def test_two_planners_share_due_schedules_and_neither_waits(
    two_planners: tuple[ScheduleProbe, ScheduleProbe],
) -> None:
    schedules, other_schedules = two_planners
    await several(schedules, 6)
    now = START + HOUR
    async with AsyncExitStack() as both, asyncio.timeout(10):
        first = await both.enter_async_context(schedules.store.plans.lock_due(now, 4, []))
        second = await both.enter_async_context(other_schedules.store.plans.lock_due(now, 4, []))
        assert (len(first.due), len(second.due)) == (4, 2)
        assert {each.id for each in first.due}.isdisjoint(each.id for each in second.due)
        assert await other_schedules.store.plans.is_behind(now, [])
        for locked in (first, second):
            for due in locked.due:
                locked.write(due.id, decided(due, now))
    assert not await schedules.store.plans.is_behind(now, [])
    assert await schedules.probe.count("deliveries") == 12


@pytest.mark.requirement("C1")
async def test_concurrent_planners_make_each_occurrence_once(
    schedules: ScheduleProbe, other_schedules: ScheduleProbe
) -> None:
    await several(schedules, 40, catch_up="all")
    for step in (HOUR, 3 * HOUR, HOUR, 5 * HOUR):
        schedules.probe.clock.advance(step)
        async with asyncio.timeout(30):
            await asyncio.gather(schedules.planner.catch_up(), other_schedules.planner.catch_up())
    for number in range(40):
        found = await schedules.occurrences(f"n{number}")
        assert found == [f"2026-03-01T{hour}:00:00Z" for hour in range(13, 24)]
        assert (await schedules.get(f"n{number}")).progress.runs == 11


@pytest.mark.requirement("C1")
async def test_an_untouched_delivery_cannot_be_claimed_while_its_schedule_is_locked(
    two_planners: tuple[ScheduleProbe, ScheduleProbe],
) -> None:
    schedules, other_schedules = two_planners
    await schedules.declare("daily", HOURLY)
    schedules.probe.clock.advance(DAY)
    now = schedules.probe.clock.now()
    async with schedules.store.plans.lock_due(now, 10, []) as locked:
        (due,) = locked.due
        assert await locked.untouched([due.progress.made_id]) == {due.progress.made_id}
        assert await other_schedules.claim() == []
        locked.write(due.id, decided(due, now, untouched=True))
    (claimed,) = await other_schedules.claim()
    assert claimed.occasion is not None
    assert '"merged":23' in claimed.occasion


@pytest.mark.requirement("C1")
async def test_pages_of_ready_schedules_follow_each_other(schedules: ScheduleProbe) -> None:
    await several(schedules, 5)
    await schedules.declare("sooner", every("1m"))
    now = START + HOUR
    names: list[str] = []
    last = None
    while page := await schedules.store.plans.ready(now, 2, [], last):
        names += [each.name for each in page]
        last = page[-1]
    assert names == ["sooner", *(f"n{number}" for number in range(5))]
    first = await schedules.get("n0")
    assert len(await schedules.store.plans.ready(now, 10, [first.id], None)) == 5
    assert await schedules.store.plans.ready(START, 10, [], None) == []


@pytest.mark.requirement("C1")
async def test_a_quick_plan_is_written_once_however_often_it_is_tried(
    schedules: ScheduleProbe, other_schedules: ScheduleProbe
) -> None:
    await several(schedules, 3)
    now = START + HOUR
    pages = [
        await each.store.plans.ready(now, 10, [], None) for each in (schedules, other_schedules)
    ]
    plans = [[(due, decided(due, now)) for due in page] for page in pages]
    assert await schedules.store.plans.write(plans[0]) == 3
    assert await other_schedules.store.plans.write(plans[1]) == 0
    assert await schedules.store.plans.write(plans[0]) == 0
    assert await schedules.probe.count("deliveries") == await schedules.probe.count("agenda") == 6
    for due, plan in plans[0]:
        assert (await schedules.get(due.name)).progress == plan.progress


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("action", ["change", "pause", "remove"])
async def test_a_quick_plan_of_a_schedule_that_was_changed_is_not_written(
    schedules: ScheduleProbe, action: str
) -> None:
    await schedules.declare("daily", HOURLY, [1])
    schedules.probe.clock.advance(HOUR)
    now = schedules.probe.clock.now()
    (due,) = await schedules.store.plans.ready(now, 10, [], None)
    if action == "change":
        await schedules.declare("daily", HOURLY, [2])
    elif action == "pause":
        await schedules.service.pause("daily")
    else:
        await schedules.service.remove("daily")
    before = await schedules.everything()
    assert await schedules.store.plans.write([(due, decided(due, now))]) == 0
    assert await schedules.everything() == before


@pytest.mark.requirement("C4")
async def test_a_quick_plan_without_a_next_occurrence_ends_the_schedule(
    schedules: ScheduleProbe,
) -> None:
    await schedules.declare("daily", HOURLY, end=ONE)
    schedules.probe.clock.advance(HOUR)
    (due,) = await schedules.store.plans.ready(schedules.probe.clock.now(), 10, [], None)
    assert (
        await schedules.store.plans.write([(due, decided(due, schedules.probe.clock.now()))]) == 1
    )
    assert (await schedules.get()).state == "finished"
    assert await schedules.probe.count("deliveries") == 1


@pytest.mark.requirement("C3")
async def test_skips_counted_during_planning_are_not_lost(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY, overlap="skip")
    schedules.probe.clock.advance(HOUR)
    now = schedules.probe.clock.now()
    (due,) = await schedules.store.plans.ready(now, 10, [], None)
    (claimed,) = await schedules.claim()
    await schedules.probe.settle(settlement(claimed, Verdict.SKIPPED, now))
    assert await schedules.store.plans.write([(due, decided(due, now))]) in (0, 1)
    await schedules.planner.catch_up()
    progress = (await schedules.get()).progress
    assert (progress.skipped, progress.runs) == (1, 2)


async def moved_to(schedules: ScheduleProbe, id: str, occurrence: str) -> None:
    plan = Plan(
        progress=(await schedules.get()).progress,
        move=[Planned(id, occurrence, ONE + DAY, '{"overlap":"allow"}')],
    )
    await written(schedules, plan)


async def written(schedules: ScheduleProbe, plan: Plan) -> None:
    schedules.probe.clock.advance(HOUR)
    async with schedules.store.plans.lock_due(schedules.probe.clock.now(), 10, []) as locked:
        (due,) = locked.due
        locked.write(due.id, plan)


@pytest.mark.requirement("C1")
async def test_a_move_does_not_change_a_held_delivery(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY)
    schedules.probe.clock.advance(HOUR)
    (claimed,) = await schedules.claim()
    before = await schedules.probe.ledger(claimed.id), await schedules.probe.lane(claimed.id)
    if is_postgres(schedules):
        # On PostgreSQL `untouched` checks whether it is held; only what it returned is moved.
        async with schedules.store.plans.lock_due(schedules.probe.clock.now(), 10, []) as locked:
            assert await locked.untouched([claimed.id]) == set()
    else:
        await moved_to(schedules, claimed.id, "2026-03-02T13:00:00Z")
    assert (
        await schedules.probe.ledger(claimed.id),
        await schedules.probe.lane(claimed.id),
    ) == before


@pytest.mark.requirement("C1")
async def test_a_move_to_an_existing_occurrence_changes_nothing(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY)
    id = await schedules.pending()
    taken = Planned(number_id(5), "2026-03-02T13:00:00Z", ONE, '{"overlap":"allow"}')
    assert await schedules.store.schedules.add_runs(await schedules.get(), [taken], "kim") == 1
    before = await schedules.probe.ledger(id), await schedules.probe.lane(id)
    await moved_to(schedules, id, "2026-03-02T13:00:00Z")
    assert (await schedules.probe.ledger(id), await schedules.probe.lane(id)) == before


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("how", [Drop.SKIPPED, Drop.CANCELLED])
async def test_a_dropped_delivery_stays_in_the_ledger_and_the_history(
    schedules: ScheduleProbe, how: Drop
) -> None:
    await schedules.declare("daily", HOURLY)
    id = await schedules.pending()
    await written(schedules, Plan(progress=(await schedules.get()).progress, drop=[(id, how)]))
    delivery = await schedules.store.deliveries.get(id)
    assert (delivery.state, delivery.reason, delivery.attempt) == ("cancelled", str(how), 0)
    assert delivery.finished_at == START + HOUR
    (entry,) = await schedules.store.deliveries.history(id)
    assert (entry.outcome, entry.before, entry.after) == (str(how), "pending", "cancelled")
    assert await schedules.probe.lane(id) is None


@pytest.mark.requirement("C4")
async def test_a_withdrawn_delivery_is_deleted(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY)
    id = await schedules.pending()
    await written(
        schedules, Plan(progress=(await schedules.get()).progress, drop=[(id, Drop.WITHDRAWN)])
    )
    with pytest.raises(NotFound):
        await schedules.store.deliveries.get(id)
    assert await schedules.probe.count("agenda") == await schedules.probe.count("attempts") == 0


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("how", Drop)
async def test_a_held_delivery_is_not_dropped(schedules: ScheduleProbe, how: Drop) -> None:
    await schedules.declare("daily", HOURLY)
    schedules.probe.clock.advance(HOUR)
    (claimed,) = await schedules.claim()
    await written(
        schedules, Plan(progress=(await schedules.get()).progress, drop=[(claimed.id, how)])
    )
    assert (await schedules.store.deliveries.get(claimed.id)).state == "processing"
    assert await schedules.probe.history(claimed.id) == []


@pytest.mark.requirement("C1")
async def test_the_planned_moment_never_goes_back(schedules: ScheduleProbe) -> None:
    assert await schedules.store.plans.clock() == (START, None)
    await schedules.store.plans.note(START + HOUR)
    await schedules.store.plans.note(START)
    assert await schedules.store.plans.clock() == (START, START + HOUR)


@pytest.mark.requirement("C3")
async def test_without_a_payload_the_occasion_is_delivered(schedules: ScheduleProbe) -> None:
    await schedules.declare("daily", HOURLY)
    schedules.probe.clock.advance(3 * HOUR)
    await schedules.planner.catch_up()
    (claimed,) = await schedules.claim()
    assert claimed.payload.decode() == claimed.occasion
    assert claimed.payload == (
        b'{"schedule":"daily","scheduled_for":"2026-03-01T15:00:00Z","merged":2,"overlap":"allow"}'
    )
