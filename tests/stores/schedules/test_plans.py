"""The planner's side of the books: shared, fenced, and written whole or not at all."""

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
from tests.stores.books import START, Books, number_id, opened, settlement
from tests.stores.rota import Rota

HOURLY = cron("0 * * * *")
ONE = datetime(2026, 3, 1, 13, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
new_id = SystemChance().delivery_id


@pytest.fixture
def rota(books: Books) -> Rota:
    return Rota(books)


@pytest.fixture
def other_rota(elsewhere: Books) -> Rota:
    """As seen by another process."""
    return Rota(elsewhere)


@pytest.fixture
async def two_planners(
    emptied_postgres_url: str, clock: VirtualClock
) -> AsyncIterator[tuple[Rota, Rota]]:
    """Two processes on PostgreSQL; an SQLite file has one planner, and one writer, at a time."""
    both = [await opened(emptied_postgres_url, clock) for _ in range(2)]
    yield Rota(both[0]), Rota(both[1])
    for each in both:
        await each.store.close()


async def several(rota: Rota, many: int, **options: object) -> None:
    for number in range(many):
        await rota.declare(f"n{number}", HOURLY, **options)


def decided(due: DueSchedule, now: datetime, *, untouched: bool = False) -> Plan:
    assert due.timing is not None
    return Planning(due.name, due.timing, due.progress, now, new_id).plan(untouched=untouched)


@pytest.mark.requirement("C1")
async def test_what_is_due_to_be_planned_comes_in_the_order_of_its_moments(rota: Rota) -> None:
    await rota.declare("later", cron("30 * * * *"))
    await rota.declare("never", HOURLY, end=START)
    await rota.declare("much later", cron("0 15 * * *"))
    await rota.declare("first", every("1m"))
    await rota.declare("paused", every("1m"))
    await rota.people.pause("paused")
    now = START + HOUR
    async with rota.store.plans.lock_due(now, 10, []) as locked:
        assert [each.name for each in locked.due] == ["first", "later"]
    async with rota.store.plans.lock_due(now, 1, []) as locked:
        (first,) = locked.due
        assert (first.name, first.progress) == ("first", (await rota.get("first")).progress)
    async with rota.store.plans.lock_due(now, 10, [first.id]) as locked:
        assert [each.name for each in locked.due] == ["later"]
    assert await rota.store.plans.next_at([]) == datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
    later = await rota.get("later")
    assert await rota.store.plans.next_at([first.id]) == later.progress.next_at
    assert await rota.store.plans.is_behind(now, [])
    assert not await rota.store.plans.is_behind(now, [first.id, later.id])
    assert not await rota.store.plans.is_behind(START, [])


@pytest.mark.requirement("C1")
async def test_locked_schedules_write_occurrences_and_progress_together(rota: Rota) -> None:
    await rota.declare("daily", HOURLY, catch_up="all")
    now = ONE + 2 * HOUR
    rota.books.clock.advance(now - START)
    async with rota.store.plans.lock_due(now, 10, []) as locked:
        (due,) = locked.due
        untouched = await locked.untouched([due.progress.made_id])
        plan = decided(due, now, untouched=due.progress.made_id in untouched)
        locked.write(due.id, plan)
        assert len(await rota.occurrences() if is_postgres(rota) else ["one"]) == 1
    assert (await rota.get()).progress == plan.progress
    assert await rota.occurrences() == [f"2026-03-01T{hour}:00:00Z" for hour in (13, 14, 15, 16)]
    assert await rota.books.count("agenda") == 4
    assert (await rota.store.plans.clock())[1] == now


def is_postgres(rota: Rota) -> bool:
    return isinstance(rota.store.database, Postgres)


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("catch_up", ["all", "latest", "skip"])
@pytest.mark.parametrize("place", ["plan.before", "plan.middle"])
async def test_a_plan_that_fails_half_way_leaves_nothing_and_is_made_again(
    rota: Rota, place: str, catch_up: str
) -> None:
    await several(rota, 3, catch_up=catch_up)
    rota.books.clock.advance(DAY)
    before = await rota.everything()
    arm(f"{place}=raise")
    with pytest.raises(FailpointRaised):
        await rota.planner.catch_up()
    assert await rota.everything() == before
    arm("")
    await rota.planner.catch_up()
    made = {"all": 25, "latest": 2, "skip": 3}[catch_up]
    assert await rota.books.count("deliveries") == 3 * made
    arm("plan.after=raise")
    rota.books.clock.advance(DAY)
    with pytest.raises(FailpointRaised):
        await rota.planner.catch_up()
    arm("")
    await rota.planner.catch_up()
    for number in range(3):
        found = await rota.occurrences(f"n{number}")
        assert len(found) == len(set(found))
        assert found[-1] == "2026-03-03T13:00:00Z"


@pytest.mark.requirement("C1")
async def test_two_planners_share_what_is_due_and_neither_waits(
    two_planners: tuple[Rota, Rota],
) -> None:
    rota, other_rota = two_planners
    await several(rota, 6)
    now = START + HOUR
    async with AsyncExitStack() as both, asyncio.timeout(10):
        first = await both.enter_async_context(rota.store.plans.lock_due(now, 4, []))
        second = await both.enter_async_context(other_rota.store.plans.lock_due(now, 4, []))
        assert (len(first.due), len(second.due)) == (4, 2)
        assert {each.id for each in first.due}.isdisjoint(each.id for each in second.due)
        assert await other_rota.store.plans.is_behind(now, [])
        for locked in (first, second):
            for due in locked.due:
                locked.write(due.id, decided(due, now))
    assert not await rota.store.plans.is_behind(now, [])
    assert await rota.books.count("deliveries") == 12


@pytest.mark.requirement("C1")
async def test_planners_that_race_make_each_occurrence_once(rota: Rota, other_rota: Rota) -> None:
    await several(rota, 40, catch_up="all")
    for step in (HOUR, 3 * HOUR, HOUR, 5 * HOUR):
        rota.books.clock.advance(step)
        async with asyncio.timeout(30):
            await asyncio.gather(rota.planner.catch_up(), other_rota.planner.catch_up())
    for number in range(40):
        found = await rota.occurrences(f"n{number}")
        assert found == [f"2026-03-01T{hour}:00:00Z" for hour in range(13, 24)]
        assert (await rota.get(f"n{number}")).progress.runs == 11


@pytest.mark.requirement("C1")
async def test_what_a_sitting_found_untouched_nobody_can_claim_until_it_ends(
    two_planners: tuple[Rota, Rota],
) -> None:
    rota, other_rota = two_planners
    await rota.declare("daily", HOURLY)
    rota.books.clock.advance(DAY)
    now = rota.books.clock.now()
    async with rota.store.plans.lock_due(now, 10, []) as locked:
        (due,) = locked.due
        assert await locked.untouched([due.progress.made_id]) == {due.progress.made_id}
        assert await other_rota.claim() == []
        locked.write(due.id, decided(due, now, untouched=True))
    (claimed,) = await other_rota.claim()
    assert claimed.occasion is not None
    assert '"merged":23' in claimed.occasion


@pytest.mark.requirement("C1")
async def test_pages_of_what_is_ready_follow_each_other(rota: Rota) -> None:
    await several(rota, 5)
    await rota.declare("sooner", every("1m"))
    now = START + HOUR
    names: list[str] = []
    last = None
    while page := await rota.store.plans.ready(now, 2, [], last):
        names += [each.name for each in page]
        last = page[-1]
    assert names == ["sooner", *(f"n{number}" for number in range(5))]
    first = await rota.get("n0")
    assert len(await rota.store.plans.ready(now, 10, [first.id], None)) == 5
    assert await rota.store.plans.ready(START, 10, [], None) == []


@pytest.mark.requirement("C1")
async def test_a_quick_plan_is_written_once_however_often_it_is_tried(
    rota: Rota, other_rota: Rota
) -> None:
    await several(rota, 3)
    now = START + HOUR
    pages = [await each.store.plans.ready(now, 10, [], None) for each in (rota, other_rota)]
    plans = [[(due, decided(due, now)) for due in page] for page in pages]
    assert await rota.store.plans.write(plans[0]) == 3
    assert await other_rota.store.plans.write(plans[1]) == 0
    assert await rota.store.plans.write(plans[0]) == 0
    assert await rota.books.count("deliveries") == await rota.books.count("agenda") == 6
    for due, plan in plans[0]:
        assert (await rota.get(due.name)).progress == plan.progress


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("deed", ["change", "pause", "remove"])
async def test_a_quick_plan_of_what_was_changed_meanwhile_is_not_written(
    rota: Rota, deed: str
) -> None:
    await rota.declare("daily", HOURLY, [1])
    rota.books.clock.advance(HOUR)
    now = rota.books.clock.now()
    (due,) = await rota.store.plans.ready(now, 10, [], None)
    if deed == "change":
        await rota.declare("daily", HOURLY, [2])
    elif deed == "pause":
        await rota.people.pause("daily")
    else:
        await rota.people.remove("daily")
    before = await rota.everything()
    assert await rota.store.plans.write([(due, decided(due, now))]) == 0
    assert await rota.everything() == before


@pytest.mark.requirement("C4")
async def test_a_quick_plan_without_a_next_occurrence_ends_the_schedule(rota: Rota) -> None:
    await rota.declare("daily", HOURLY, end=ONE)
    rota.books.clock.advance(HOUR)
    (due,) = await rota.store.plans.ready(rota.books.clock.now(), 10, [], None)
    assert await rota.store.plans.write([(due, decided(due, rota.books.clock.now()))]) == 1
    assert (await rota.get()).state == "finished"
    assert await rota.books.count("deliveries") == 1


@pytest.mark.requirement("C3")
async def test_skips_that_are_counted_while_a_plan_is_made_are_not_lost(rota: Rota) -> None:
    await rota.declare("daily", HOURLY, overlap="skip")
    rota.books.clock.advance(HOUR)
    now = rota.books.clock.now()
    (due,) = await rota.store.plans.ready(now, 10, [], None)
    (claimed,) = await rota.claim()
    await rota.books.settle(settlement(claimed, Verdict.SKIPPED, now))
    assert await rota.store.plans.write([(due, decided(due, now))]) in (0, 1)
    await rota.planner.catch_up()
    progress = (await rota.get()).progress
    assert (progress.skipped, progress.runs) == (1, 2)


async def moved_to(rota: Rota, id: str, occurrence: str) -> None:
    plan = Plan(
        progress=(await rota.get()).progress,
        move=[Planned(id, occurrence, ONE + DAY, '{"overlap":"allow"}')],
    )
    await written(rota, plan)


async def written(rota: Rota, plan: Plan) -> None:
    rota.books.clock.advance(HOUR)
    async with rota.store.plans.lock_due(rota.books.clock.now(), 10, []) as locked:
        (due,) = locked.due
        locked.write(due.id, plan)


@pytest.mark.requirement("C1")
async def test_a_move_leaves_alone_what_somebody_holds(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    rota.books.clock.advance(HOUR)
    (claimed,) = await rota.claim()
    before = await rota.books.ledger(claimed.id), await rota.books.lane(claimed.id)
    if is_postgres(rota):
        # There it is `untouched` that asks whether it is held; a move is only for what it found.
        async with rota.store.plans.lock_due(rota.books.clock.now(), 10, []) as locked:
            assert await locked.untouched([claimed.id]) == set()
    else:
        await moved_to(rota, claimed.id, "2026-03-02T13:00:00Z")
    assert (await rota.books.ledger(claimed.id), await rota.books.lane(claimed.id)) == before


@pytest.mark.requirement("C1")
async def test_a_move_to_an_occurrence_that_is_there_already_changes_nothing(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    id = await rota.pending()
    taken = Planned(number_id(5), "2026-03-02T13:00:00Z", ONE, '{"overlap":"allow"}')
    assert await rota.store.schedules.add_runs(await rota.get(), [taken], "somebody") == 1
    before = await rota.books.ledger(id), await rota.books.lane(id)
    await moved_to(rota, id, "2026-03-02T13:00:00Z")
    assert (await rota.books.ledger(id), await rota.books.lane(id)) == before


@pytest.mark.requirement("C3")
@pytest.mark.parametrize("how", [Drop.SKIPPED, Drop.CANCELLED])
async def test_what_is_dropped_stays_in_the_ledger_and_its_history(rota: Rota, how: Drop) -> None:
    await rota.declare("daily", HOURLY)
    id = await rota.pending()
    await written(rota, Plan(progress=(await rota.get()).progress, drop=[(id, how)]))
    booked = await rota.store.deliveries.get(id)
    assert (booked.state, booked.reason, booked.attempt) == ("cancelled", str(how), 0)
    assert booked.finished_at == START + HOUR
    (entry,) = await rota.store.deliveries.history(id)
    assert (entry.outcome, entry.before, entry.after) == (str(how), "pending", "cancelled")
    assert await rota.books.lane(id) is None


@pytest.mark.requirement("C4")
async def test_what_is_withdrawn_was_never_there(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    id = await rota.pending()
    await written(rota, Plan(progress=(await rota.get()).progress, drop=[(id, Drop.WITHDRAWN)]))
    with pytest.raises(NotFound):
        await rota.store.deliveries.get(id)
    assert await rota.books.count("agenda") == await rota.books.count("attempts") == 0


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("how", Drop)
async def test_what_somebody_holds_is_not_dropped(rota: Rota, how: Drop) -> None:
    await rota.declare("daily", HOURLY)
    rota.books.clock.advance(HOUR)
    (claimed,) = await rota.claim()
    await written(rota, Plan(progress=(await rota.get()).progress, drop=[(claimed.id, how)]))
    assert (await rota.store.deliveries.get(claimed.id)).state == "processing"
    assert await rota.books.history(claimed.id) == []


@pytest.mark.requirement("C1")
async def test_the_moment_up_to_which_was_planned_never_goes_back(rota: Rota) -> None:
    assert await rota.store.plans.clock() == (START, None)
    await rota.store.plans.note(START + HOUR)
    await rota.store.plans.note(START)
    assert await rota.store.plans.clock() == (START, START + HOUR)


@pytest.mark.requirement("C3")
async def test_without_a_payload_the_occasion_is_delivered(rota: Rota) -> None:
    await rota.declare("daily", HOURLY)
    rota.books.clock.advance(3 * HOUR)
    await rota.planner.catch_up()
    (claimed,) = await rota.claim()
    assert claimed.payload.decode() == claimed.occasion
    assert claimed.payload == (
        b'{"schedule":"daily","scheduled_for":"2026-03-01T15:00:00Z","merged":2,"overlap":"allow"}'
    )
