"""Runs of a stream, and what happens when a worker is stopped during one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import pytest

from duly import App, Delivery
from duly.domain.deliveries.outcomes import Completed
from duly.errors import StoreUnavailable
from duly.testing import RecordingTransport, VirtualClock, run_until_idle
from tests.engine.cluster import WorkerProcess
from tests.services.work import DEADLINE_SECONDS, NAME, Work

SOON = 0.5
"""Long enough for a lane to be claimed again after deliveries may have been added."""
HOUR = 3600.0
TENANT: ContextVar[str | None] = ContextVar("tenant", default=None)


@pytest.fixture
async def shared_work(postgres_url: str, clock: VirtualClock) -> AsyncIterator[Work]:
    """On PostgreSQL, where others may be adding to a stream concurrently."""
    async with App(postgres_url, clock=clock, environment={}) as app:
        yield Work(app)


async def start_worker(app: App, transport: RecordingTransport | None = None) -> WorkerProcess:
    """A worker that is prepared but runs no loops."""
    engine = app.engine(transport, stepped=True)
    await engine.prepare()
    return WorkerProcess(app, engine)


async def steps(process: WorkerProcess, many: int = 3) -> None:
    for _ in range(many):
        await process.engine.worker.step()


async def with_empty_streams(work: Work, *streams: str) -> WorkerProcess:
    """A worker that ran everything, but has not yet removed the lanes of the empty streams."""
    for name in streams:
        for _ in range(2):
            await work.add("first", stream=name, key=f"first {name}")
    process = await start_worker(work.app)
    await process.engine.worker.step()
    assert work.seen == ["first"] * len(streams)
    return process


@pytest.mark.requirement("F5", "D4")
class TestEmptyLane:
    """Its last delivery is done, but a position is unused, or a delivery may be being added."""

    async def test_an_empty_lane_does_not_block_others_of_its_claim(
        self, work: Work, clock: VirtualClock
    ) -> None:
        process = await with_empty_streams(work, NAME)
        clock.advance(SOON)
        await work.add(*range(20), stream=None)
        await steps(process)
        assert sorted(work.seen[1:]) == list(range(20))
        assert await work.app.store.agenda.survey() == []

    async def test_an_empty_lane_continues_after_a_concurrent_addition(
        self, shared_work: Work, clock: VirtualClock
    ) -> None:
        work = shared_work
        await work.add("first")
        process = await start_worker(work.app)
        database = work.app.store.database  # type: ignore[attr-defined]
        async with database.shared() as connection, connection.transaction():
            await connection.execute("select from duly.streams for update")
            await process.engine.worker.step()
            clock.advance(SOON)
            await work.add("bystander", stream=None)
            await steps(process)
            assert work.seen == ["first", "bystander"]
        await work.add("second")
        clock.advance(SOON)
        await steps(process)
        assert work.seen == ["first", "bystander", "second"]

    async def test_a_delivery_that_is_not_due_does_not_run(
        self, work: Work, clock: VirtualClock
    ) -> None:
        process = await with_empty_streams(work, NAME)
        await work.add("in an hour", after=HOUR)
        clock.advance(SOON)
        await steps(process)
        assert work.seen == ["first"]
        clock.advance(HOUR)
        await steps(process)
        assert work.seen == ["first", "in an hour"]

    async def test_a_delivery_of_another_process_does_not_run(
        self, work: Work, clock: VirtualClock
    ) -> None:
        work.app.expect("elsewhere")
        process = await with_empty_streams(work, NAME)
        ids = await work.add("theirs", target="elsewhere")
        ids += await work.add("ours, after theirs")
        clock.advance(SOON)
        await steps(process)
        assert work.seen == ["first"]
        assert await work.states(*ids) == ["pending"] * 2
        await run_until_idle(work.app, transport=RecordingTransport("elsewhere"))
        await steps(process)
        assert work.seen == ["first", "ours, after theirs"]


SLOW_CLAIM = """
alter table duly.workers rename to roster;
create function duly.waited() returns boolean language plpgsql as
    $$ begin perform pg_advisory_xact_lock_shared(7); return true; end $$;
create view duly.workers as select * from duly.roster where duly.waited();
"""
"""The claim has its snapshot by then, but has taken nothing yet."""
WAITING = "select count(*) from pg_locks where locktype = 'advisory' and not granted"


@pytest.mark.requirement("F5", "F7")
async def test_a_delivery_cancelled_during_a_claim_is_not_in_the_run(
    shared_work: Work,
) -> None:
    work = shared_work
    ids = await work.add("a", "b", "c")
    process = await start_worker(work.app)
    database = work.app.store.database  # type: ignore[attr-defined]
    async with database.shared() as connection:
        await connection.execute(SLOW_CLAIM)
        await connection.execute("select pg_advisory_lock(7)")
        claiming = asyncio.create_task(process.tick())
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not await connection.fetchval(WAITING):
                pass
        await work.app.cancel(ids[1])
        await connection.execute("select pg_advisory_unlock(7)")
    await claiming
    await process.finish()
    await steps(process)
    assert work.seen == ["a", "c"]
    assert await work.states(*ids) == ["completed", "cancelled", "completed"]


@pytest.mark.requirement("F5")
async def test_each_delivery_of_a_run_has_the_initial_context(app: App) -> None:
    found: list[tuple[int, str | None]] = []

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        assert delivery.payload is not None
        found.append((delivery.payload, TENANT.get()))
        TENANT.set(f"tenant of {delivery.payload}")

    for number in range(3):
        await app.deliver("work", number, stream=NAME)
    process = await start_worker(app)
    await process.tick()
    assert found == [(0, None), (1, None), (2, None)], "all in one run"


@pytest.mark.requirement("F5", "D9")
async def test_a_delivery_of_a_run_gets_its_transaction_without_a_settling_loop(
    app: App,
) -> None:
    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        if delivery.payload == 1:
            await delivery.transaction.execute("select 1")

    ids = [(await app.deliver("work", number, stream=NAME)).id for number in range(3)]
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await run_until_idle(app) == 3
    assert {(await app.get(id)).state for id in ids} == {"completed"}


@pytest.mark.requirement("F5", "F7")
@pytest.mark.parametrize("operation", ["discard", "retry", "release", "retry_now"])
async def test_a_death_in_the_middle_of_a_run_blocks_the_stream_until_an_operation(
    work: Work, operation: str
) -> None:
    operations = {
        "discard": lambda id: work.app.dead_letters.discard(id, "given up"),
        "retry": work.app.dead_letters.retry,
        "release": lambda _: work.app.streams.release(NAME),
        "retry_now": lambda _: work.app.streams.retry_now(NAME),
    }
    work.dies("b")
    ids = await work.add("a", "b", "c")
    await run_until_idle(work.app)
    stream = await work.stream()
    assert stream.head is not None
    assert (stream.head.id, stream.state) == (ids[1], "blocked")
    await operations[operation](ids[1])
    await run_until_idle(work.app)
    assert (await work.stream()).state == "idle"
    assert await work.states(ids[0], ids[2]) == ["completed"] * 2


class Held(RecordingTransport):
    """A transport whose second attempt waits until it is opened."""

    def __init__(self, answer: str | None) -> None:
        super().__init__("work", answers=[Completed(answer)])
        self.began, self.open = asyncio.Event(), asyncio.Event()

    async def attempt(self, execution: Any) -> Any:
        if self.recorded:
            self.began.set()
            await self.open.wait()
        return await super().attempt(execution)


@pytest.mark.requirement("D4", "D7")
@pytest.mark.parametrize("answer", [None, '{"status":200}'])
async def test_an_outcome_of_a_run_with_a_lost_response_is_counted_once(
    app: App, monkeypatch: pytest.MonkeyPatch, answer: str | None
) -> None:
    app.expect("work")
    ids = [(await app.deliver("work", number, stream=NAME)).id for number in range(2)]
    held = Held(answer)
    process = await start_worker(app, held)
    agenda = process.engine.worker.store.agenda
    settle = agenda.settle

    async def lost(settlements: Any) -> Any:
        await settle(settlements)
        raise StoreUnavailable("the answer was lost")

    await process.tick()
    assert held.began.is_set()
    with monkeypatch.context() as patched:
        patched.setattr(agenda, "settle", lost)
        with pytest.raises(StoreUnavailable):
            await process.engine.worker.settler.flush()
    held.open.set()
    await process.finish()
    for id in ids:
        delivery = await app.get(id)
        history = [(each.outcome, each.attempt) for each in await app.deliveries.history(id)]
        assert (delivery.state, delivery.attempt, history) == ("completed", 1, [("completed", 1)])


@pytest.mark.requirement("D7")
class TestLostLease:
    async def test_a_lost_lease_ends_the_run(self, work: Work) -> None:
        proceed = work.waits("a")
        await work.add("a", "b")
        process = await start_worker(work.app)
        assert await process.tick() == 1
        await process.engine.worker.membership.register()
        proceed.set()
        await process.yield_to_tasks()
        assert work.seen == ["a"], "the new lease does not cover the run"

    async def test_a_lost_lease_does_not_shorten_later_runs(self, work: Work) -> None:
        process = await start_worker(work.app)
        await process.engine.worker.lease_monitor.lose_lease()
        await process.engine.worker.membership.register()
        await work.add("a", "b", "c")
        await process.tick()
        assert work.seen == ["a", "b", "c"]

    @pytest.mark.parametrize("stream", [None, NAME])
    async def test_deliveries_of_a_lost_lease_are_found_by_others(
        self, work: Work, clock: VirtualClock, stream: str | None
    ) -> None:
        work.waits("abandoned")
        (id,) = await work.add("abandoned", stream=stream)
        process = await start_worker(work.app)
        assert await process.tick() == 1
        await process.engine.worker.lease_monitor.lose_lease()
        await process.engine.worker.membership.register()
        await work.add("next", stream="another")
        await process.tick()
        await process.finish()
        assert work.seen == ["abandoned", "next"]
        work.events.clear()
        clock.advance(HOUR)
        await run_until_idle(work.app, within=HOUR)
        assert await work.states(id) == ["completed"]
