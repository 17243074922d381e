"""A handler's transaction: its writes and the completion are committed together, or not at all."""

import asyncio
from contextvars import Context
from datetime import timedelta

import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.errors import Conflict, LeaseLost, StoreUnavailable
from duly.failpoints import FailpointRaised, arm
from duly.ports import OpenTransaction
from duly.stores.sqlite.database import Sqlite
from tests.stores.store_probe import START, StoreProbe, settlement

pytestmark = pytest.mark.requirement("D9")


@pytest.fixture
async def probe(probe: StoreProbe) -> StoreProbe:
    await probe.sql("drop table if exists effects")
    await probe.sql("create table effects (delivery text, value integer)")
    return probe


async def effects(probe: StoreProbe) -> list[int]:
    return [row["value"] for row in await probe.sql("select value from effects order by value")]


async def write(probe: StoreProbe, transaction: OpenTransaction, value: int) -> None:
    mark = "?" if isinstance(probe.store.database, Sqlite) else "$1"
    await transaction.execute(f"insert into effects values ('d', {mark})", value)


def begin_in_another_handler(probe: StoreProbe) -> asyncio.Task[OpenTransaction]:
    """A transaction of another handler, independent of ours."""
    return asyncio.get_running_loop().create_task(probe.store.begin(), context=Context())


async def test_writes_and_the_completion_are_committed_together(probe: StoreProbe) -> None:
    claimed = await probe.claimed()
    transaction = await probe.store.begin()
    await write(probe, transaction, 7)
    assert await transaction.fetch("select value, delivery from effects") == [(7, "d")]
    await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
    assert await effects(probe) == [7]
    delivery = await probe.store.deliveries.get(claimed.id)
    assert (delivery.state, delivery.attempt) == ("completed", 1)
    assert delivery.finished_at == START + timedelta(seconds=2, microseconds=2)
    assert await probe.lane(claimed.id) is None


async def test_a_rollback_leaves_nothing(probe: StoreProbe) -> None:
    claimed = await probe.claimed()
    transaction = await probe.store.begin()
    await write(probe, transaction, 7)
    await transaction.roll_back()
    assert await effects(probe) == []
    assert (await probe.store.deliveries.get(claimed.id)).state == "processing"
    assert await probe.settle(settlement(claimed, Verdict.COMPLETED, START)) == {claimed.lane}


@pytest.mark.requirement("D7")
async def test_a_lost_lease_rolls_back_the_handlers_writes(probe: StoreProbe) -> None:
    claimed = await probe.claimed()
    await probe.store.agenda.release(claimed.token)
    transaction = await probe.store.begin()
    await write(probe, transaction, 7)
    with pytest.raises(LeaseLost):
        await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
    assert await effects(probe) == []
    assert (await probe.ledger(claimed.id))["state"] == "pending"
    assert await probe.lane(claimed.id) is not None


async def test_a_second_attempt_after_the_first_took_effect_changes_nothing(
    probe: StoreProbe,
) -> None:
    claimed = await probe.claimed()
    for _ in range(2):
        transaction = await probe.store.begin()
        await write(probe, transaction, 7)
        try:
            await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
        except LeaseLost:
            continue
    assert await effects(probe) == [7]


@pytest.mark.parametrize("action", ["raise", "drop"])
async def test_a_failure_before_the_commit_rolls_back_everything(
    probe: StoreProbe, action: str
) -> None:
    claimed = await probe.claimed()
    transaction = await probe.store.begin()
    await write(probe, transaction, 7)
    arm(f"complete.before={action}")
    with pytest.raises((FailpointRaised, OSError, StoreUnavailable)):
        await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
    arm("")
    assert await effects(probe) == []
    assert (await probe.store.deliveries.get(claimed.id)).state == "processing"


async def test_transactions_are_returned_to_the_pool(probe: StoreProbe) -> None:
    for number in range(12):
        claimed = await probe.claimed()
        transaction = await probe.store.begin()
        await write(probe, transaction, number)
        if number % 3 == 0:
            await transaction.roll_back()
        else:
            await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
    assert len(await effects(probe)) == 8


async def test_writers_wait_for_each_other_and_none_is_lost(probe: StoreProbe) -> None:
    worker = await probe.worker()
    claims = [await probe.claimed(worker) for _ in range(6)]

    async def handle(number: int) -> None:
        transaction = await probe.store.begin()
        await write(probe, transaction, number)
        await transaction.complete(settlement(claims[number], Verdict.COMPLETED, START))

    await asyncio.wait_for(asyncio.gather(*map(handle, range(6))), 30)
    assert await effects(probe) == [0, 1, 2, 3, 4, 5]


async def test_cancelled_waits_for_a_transaction_do_no_harm(probe: StoreProbe) -> None:
    claimed = await probe.claimed()
    transaction = await probe.store.begin()
    waiting = [begin_in_another_handler(probe) for _ in range(9)]
    await asyncio.wait(waiting, timeout=0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    await write(probe, transaction, 7)
    await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
    async with asyncio.timeout(20):
        await probe.deliver()
        assert await effects(probe) == [7]


async def test_closing_rolls_back_open_transactions(
    probe: StoreProbe, other_process: StoreProbe
) -> None:
    claimed = await probe.claimed()
    transaction = await probe.store.begin()
    await write(probe, transaction, 7)
    waiting = begin_in_another_handler(probe)
    await asyncio.wait([waiting], timeout=0)
    await asyncio.wait_for(probe.store.close(), 20)
    if isinstance(probe.store.database, Sqlite):
        with pytest.raises(Conflict, match="the transaction is over"):
            await transaction.execute("select 1")
    waiting.cancel()
    await asyncio.wait([waiting])
    assert await effects(other_process) == []
    assert (await other_process.store.deliveries.get(claimed.id)).state == "processing"


async def test_on_sqlite_a_write_inside_a_transaction_is_refused_instead_of_waiting(
    probe: StoreProbe,
) -> None:
    if not isinstance(probe.store.database, Sqlite):
        probe.store.check_writable()
        return
    id = await probe.deliver()
    transaction = await probe.store.begin()
    for refused in (
        probe.store.deliveries.cancel(id),
        probe.store.deliveries.accept([probe.request()]),
        probe.store.begin(),
    ):
        with pytest.raises(Conflict, match="in a transaction on SQLite"):
            await asyncio.wait_for(refused, 5)
    assert (await probe.store.deliveries.get(id)).state == "pending"
    await transaction.roll_back()
    await probe.store.deliveries.cancel(id)
    with pytest.raises(Conflict, match="the transaction is over"):
        await transaction.execute("select 1")
