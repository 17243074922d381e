"""Deliveries that run can be cancelled, from any process, and report how far they are."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

import duly
from duly import App, Conflict, State
from duly.ports import Report
from duly.records.delivery import DeliveryDetail
from duly.stores.deliveries import running as stored_running

pytestmark = pytest.mark.requirement("P5")

DEADLINE_SECONDS = 60


class Running:
    """A worker with handlers that wait, and another App on the same store."""

    def __init__(self, app: App, other: App) -> None:
        self.app, self.other = app, other
        self.began, self.goes_on = asyncio.Event(), asyncio.Event()
        self.in_thread, self.thread_goes_on = threading.Event(), threading.Event()
        self.calls: list[Any] = []
        app.handler("obeys", retry=duly.delays(0))(self.obeys)
        app.handler("refuses")(self.refuses)
        app.handler("fails", retry=duly.delays(0))(self.fails)
        app.handler("looks")(self.looks)
        app.handler("finishes")(self.finishes)
        app.handler("writes")(self.writes)

    async def obeys(self, delivery: duly.Delivery) -> None:
        self.calls.append(delivery.payload)
        self.began.set()
        await self.goes_on.wait()

    async def refuses(self, delivery: duly.Delivery) -> str:
        self.began.set()
        try:
            await self.goes_on.wait()
        except asyncio.CancelledError:
            return "done nevertheless"
        return "done"

    async def fails(self, delivery: duly.Delivery) -> None:
        self.calls.append(delivery.payload)
        self.began.set()
        try:
            await self.goes_on.wait()
        except asyncio.CancelledError:
            raise RuntimeError("at the clean-up") from None

    def looks(self, delivery: duly.Delivery) -> None:
        self.in_thread.set()
        while not delivery.is_cancelled:
            self.thread_goes_on.wait(0.01)

    def finishes(self, delivery: duly.Delivery) -> str:
        self.looks(delivery)
        return "done nevertheless"

    async def writes(self, delivery: duly.Delivery) -> None:
        await delivery.transaction.execute("create table written (number integer)")
        self.began.set()
        await self.goes_on.wait()

    async def ended(self, id: str) -> DeliveryDetail:
        """The delivery when it has ended."""
        found = await self.other.deliveries.detail(id, wait=DEADLINE_SECONDS)
        assert found.state in ("completed", "cancelled", "dead"), found
        return found

    async def asked(self, handle: duly.Handle[Any], *, thread: bool = False) -> None:
        """Ask to cancel it once it runs."""
        if thread:
            await asyncio.to_thread(self.in_thread.wait, DEADLINE_SECONDS)
        else:
            await self.began.wait()
        found = await self.other.cancel(handle.id)
        assert found.state is State.PROCESSING
        assert found.cancel_asked_at is not None
        assert await self.other.cancel(handle.id) == found, "asking twice changes nothing"


@pytest.fixture
async def running(database_url: str) -> AsyncIterator[Running]:
    async with in_two_processes(database_url) as found:
        yield found


@asynccontextmanager
async def in_two_processes(url: str) -> AsyncIterator[Running]:
    """As in two processes: one App works, another one asks."""
    app = App(url, environment={})
    async with App(url, environment={}) as other:
        found = Running(app, other)
        async with app.worker():
            yield found
            found.goes_on.set()
            found.thread_goes_on.set()


async def test_a_running_handler_is_cancelled_from_another_process(running: Running) -> None:
    handle = await running.app.deliver("obeys", 1)
    await running.asked(handle)

    found = await running.ended(handle.id)

    assert (found.state, found.reason, found.cancel_asked_at) == (
        State.CANCELLED,
        "cancelled",
        None,
    )
    (attempt,) = found.attempts
    assert (attempt.attempt, attempt.outcome) == (1, "cancelled")
    assert attempt.started_at is not None
    assert (found.transitions[-1].before, found.transitions[-1].after) == (
        "processing",
        "cancelled",
    )
    assert running.calls == [1], "it is not retried"
    await no_request_is_left(running.other)


async def no_request_is_left(app: App) -> None:
    """The worker removes requests that are done, at its next look."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await app.store.running.look():
            pass


async def test_what_completes_nevertheless_stays_completed(running: Running) -> None:
    handle = await running.app.deliver("refuses")
    await running.asked(handle)

    found = await running.ended(handle.id)

    assert (found.state, found.result) == (State.COMPLETED, "done nevertheless")
    await no_request_is_left(running.other)


async def test_what_fails_after_it_was_asked_is_cancelled_and_not_retried(
    running: Running,
) -> None:
    handle = await running.app.deliver("fails", 1)
    await running.asked(handle)

    found = await running.ended(handle.id)

    assert found.state is State.CANCELLED
    assert "RuntimeError: at the clean-up" in (found.error or "")
    assert found.attempts[0].exception == "RuntimeError"
    assert running.calls == [1]


async def test_a_plain_handler_sees_that_it_is_cancelled(running: Running) -> None:
    handle = await running.app.deliver("looks")
    await running.asked(handle, thread=True)

    assert (await running.ended(handle.id)).state is State.CANCELLED


async def test_a_plain_handler_that_finishes_its_work_is_completed(running: Running) -> None:
    handle = await running.app.deliver("finishes")
    await running.asked(handle, thread=True)

    found = await running.ended(handle.id)

    assert (found.state, found.result) == (State.COMPLETED, "done nevertheless")


async def test_the_transaction_of_a_cancelled_handler_is_rolled_back(postgres_url: str) -> None:
    # On SQLite nothing else is written, no request either, while such a transaction is open.
    async with in_two_processes(postgres_url) as running:
        handle = await running.app.deliver("writes")
        await running.asked(handle)

        assert (await running.ended(handle.id)).state is State.CANCELLED
        async with running.other.transaction() as transaction:
            await transaction.execute("create table written (number integer)")


async def test_the_worker_goes_on_after_a_cancellation(running: Running) -> None:
    handle = await running.app.deliver("obeys", 1)
    await running.asked(handle)
    await running.ended(handle.id)
    running.goes_on.set()

    more = [await running.app.deliver("obeys", number) for number in range(20)]

    assert {(await running.ended(each.id)).state for each in more} == {State.COMPLETED}


async def test_the_next_delivery_of_a_stream_runs_after_the_cancelled_one(
    running: Running,
) -> None:
    first = await running.app.deliver("obeys", 1, stream="one")
    second = await running.app.deliver("obeys", 2, stream="one")
    await running.began.wait()
    stream = await running.other.streams.cancel_head("one")
    assert stream.head is not None
    assert stream.head.id == first.id
    running.began.clear()

    assert (await running.ended(first.id)).state is State.CANCELLED
    await running.began.wait()
    running.goes_on.set()
    assert (await running.ended(second.id)).state is State.COMPLETED
    with pytest.raises(Conflict, match="it has no head"):
        await running.other.streams.cancel_head("one")


async def test_those_that_run_are_cancelled_by_a_filter(running: Running) -> None:
    red = [await running.app.deliver("obeys", n, tags=["red"]) for n in range(3)]
    blue = await running.app.deliver("obeys", 3, tags=["blue"])
    waiting = await running.app.deliver("obeys", 4, tags=["red"], after=3600)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(running.calls) < 4:
            await asyncio.tasks.sleep(0)

    moves = running.other.deliveries.cancel_all(state="processing", tag="red")
    assert [each.done async for each in moves][-1] == 3

    assert {(await running.ended(each.id)).state for each in red} == {State.CANCELLED}
    assert (await running.other.get(blue.id)).state is State.PROCESSING
    assert (await running.other.get(waiting.id)).state is State.PENDING
    with pytest.raises(duly.InvalidInput, match="state: only waiting deliveries are retried"):
        _ = [each async for each in running.other.deliveries.retry_all(state="processing")]


async def test_a_bulk_of_pending_ones_leaves_those_that_run_alone(running: Running) -> None:
    handle = await running.app.deliver("obeys", 1)
    await running.began.wait()

    moves = running.other.deliveries.cancel_all(target="obeys")

    assert [each async for each in moves] == []
    assert (await running.other.get(handle.id)).cancel_asked_at is None


async def test_a_cancel_of_what_has_ended_is_refused(running: Running) -> None:
    running.goes_on.set()
    handle = await running.app.deliver("obeys", 1)
    await running.ended(handle.id)

    with pytest.raises(Conflict, match="is completed; only a pending or running delivery"):
        await running.other.cancel(handle.id)


async def test_the_request_is_in_the_audit_trail(running: Running) -> None:
    handle = await running.app.deliver("obeys", 1)
    await running.began.wait()
    await running.other.acting_as("key:ops").cancel(handle.id)
    await running.ended(handle.id)

    entries = await running.other.audit.list()
    assert [(each.actor, each.action) for each in entries] == [("key:ops", "delivery.cancel_asked")]


async def test_a_result_that_is_not_kept_counts_as_completed_too(running: Running) -> None:
    running.app.handler("unkept", keep_result=False)(running.finishes)
    handle = await running.app.deliver("unkept")
    await running.asked(handle, thread=True)

    assert (await running.ended(handle.id)).state is State.COMPLETED


async def test_a_request_is_obeyed_while_the_worker_drains(database_url: str) -> None:
    began = asyncio.Event()
    app = App(database_url, environment={}, drain=DEADLINE_SECONDS)

    @app.handler("hang")
    async def hang() -> None:
        began.set()
        await asyncio.Event().wait()

    async with App(database_url, environment={}) as other:
        async with app.worker():
            handle = await app.deliver("hang")
            await began.wait()
            asking = asyncio.create_task(ask_when_draining(app, other, handle.id))
        await asking
        assert (await other.get(handle.id)).state is State.CANCELLED


async def ask_when_draining(app: App, other: App, id: str) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not app.telemetry.counts["Draining"]:
            await asyncio.tasks.sleep(0)
    await other.cancel(id)


@pytest.mark.parametrize("stream", [None, "one"])
async def test_a_retried_dead_letter_is_free_of_an_earlier_request(
    app: App, stream: str | None
) -> None:
    app.handler("work", retry=duly.no_retry)(lambda delivery: 1 / delivery.payload)
    handle = await app.deliver("work", 0, stream=stream)
    engine = app.engine(stepped=True)
    await engine.prepare()
    engine.worker.signal.hint()
    await engine.worker.dispatcher.tick()
    assert (await app.cancel(handle.id)).cancel_asked_at is not None
    await engine.worker.runner.drain(None)
    await engine.worker.settler.flush()
    assert (await app.get(handle.id)).state is State.DEAD

    retried = await app.retry(handle.id)

    assert (retried.state, retried.cancel_asked_at) == (State.PENDING, None)
    assert await app.store.running.asked([handle.id]) == set()
    await engine.stop()


async def test_asking_again_is_not_audited_again(running: Running) -> None:
    handle = await running.app.deliver("refuses")
    await running.began.wait()
    ops = running.other.acting_as("key:ops")
    for _ in range(3):
        await ops.cancel(handle.id)

    entries = await running.other.audit.list()
    assert [each.action for each in entries] == ["delivery.cancel_asked"]


async def test_many_that_report_do_not_hide_a_request(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_running, "MOST", 1)
    others = [await running.app.deliver("obeys", number) for number in range(3)]
    handle = await running.app.deliver("obeys", 3)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(running.calls) < 4:
            await asyncio.tasks.sleep(0)
    claimed = await running.other.store.database.fetch_named(  # type: ignore[attr-defined]
        "ledger.held", namespace="default", held_for=0.0, limit=10
    )
    tokens = {str(row["id"]): row["token"] for row in claimed}
    await running.other.store.running.report(
        [Report(delivery=each.id, token=tokens[each.id], progress=0.5) for each in others]
    )
    await running.asked(handle)

    assert (await running.ended(handle.id)).state is State.CANCELLED
    assert {(await each.get()).state for each in others} == {State.PROCESSING}


async def test_a_request_that_comes_while_rows_are_cleared_stays(postgres_url: str) -> None:
    # The deletion waits for the row that the request changes, and must look at it again.
    async with in_two_processes(postgres_url) as running:
        handle = await running.app.deliver("obeys", 1)
        await running.began.wait()
        server = await asyncpg.connect(postgres_url)
        await server.execute("insert into duly.running (delivery, token) values ($1, 1)", handle.id)
        transaction = server.transaction()
        await transaction.start()
        await server.execute(
            "update duly.running set asked_at = now() where delivery = $1", handle.id
        )
        clearing = asyncio.create_task(running.other.store.running.clear())
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not await server.fetchval(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                " and datname = current_database()"
            ):
                pass
        await transaction.commit()
        await clearing
        await server.close()

        assert (await running.ended(handle.id)).state is State.CANCELLED
