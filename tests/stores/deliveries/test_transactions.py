"""A handler's transaction: what it wrote and its completion last together, or neither."""

import asyncio
from contextvars import Context
from datetime import timedelta

import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.errors import Conflict, LeaseLost, StoreUnavailable
from duly.failpoints import FailpointRaised, arm
from duly.ports import OpenTransaction
from duly.stores.sqlite.database import Sqlite
from tests.stores.books import START, Books, settlement

pytestmark = pytest.mark.requirement("D9")


@pytest.fixture
async def books(books: Books) -> Books:
    await books.sql("drop table if exists effects")
    await books.sql("create table effects (delivery text, value integer)")
    return books


async def effects(books: Books) -> list[int]:
    return [row["value"] for row in await books.sql("select value from effects order by value")]


async def write(books: Books, transaction: OpenTransaction, value: int) -> None:
    mark = "?" if isinstance(books.store.database, Sqlite) else "$1"
    await transaction.execute(f"insert into effects values ('d', {mark})", value)


def begin_elsewhere(books: Books) -> asyncio.Task[OpenTransaction]:
    """A transaction of another handler, which knows nothing of ours."""
    return asyncio.get_running_loop().create_task(books.store.begin(), context=Context())


async def test_what_was_written_and_the_completion_last_together(books: Books) -> None:
    claimed = await books.claimed()
    transaction = await books.store.begin()
    await write(books, transaction, 7)
    assert await transaction.fetch("select value, delivery from effects") == [(7, "d")]
    await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
    assert await effects(books) == [7]
    booked = await books.store.deliveries.get(claimed.id)
    assert (booked.state, booked.attempt) == ("completed", 1)
    assert booked.finished_at == START + timedelta(seconds=2, microseconds=2)
    assert await books.lane(claimed.id) is None


async def test_what_was_rolled_back_left_nothing(books: Books) -> None:
    claimed = await books.claimed()
    transaction = await books.store.begin()
    await write(books, transaction, 7)
    await transaction.roll_back()
    assert await effects(books) == []
    assert (await books.store.deliveries.get(claimed.id)).state == "processing"
    assert await books.settle(settlement(claimed, Verdict.COMPLETED, START)) == {claimed.lane}


@pytest.mark.requirement("D7")
async def test_a_lost_lease_undoes_what_the_handler_wrote(books: Books) -> None:
    claimed = await books.claimed()
    await books.store.agenda.release(claimed.token)
    transaction = await books.store.begin()
    await write(books, transaction, 7)
    with pytest.raises(LeaseLost):
        await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
    assert await effects(books) == []
    assert (await books.ledger(claimed.id))["state"] == "pending"
    assert await books.lane(claimed.id) is not None


async def test_a_second_attempt_after_the_first_took_effect_changes_nothing(books: Books) -> None:
    claimed = await books.claimed()
    for _ in range(2):
        transaction = await books.store.begin()
        await write(books, transaction, 7)
        try:
            await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
        except LeaseLost:
            continue
    assert await effects(books) == [7]


@pytest.mark.parametrize("action", ["raise", "drop"])
async def test_a_failure_before_the_commit_undoes_all(books: Books, action: str) -> None:
    claimed = await books.claimed()
    transaction = await books.store.begin()
    await write(books, transaction, 7)
    arm(f"complete.before={action}")
    with pytest.raises((FailpointRaised, OSError, StoreUnavailable)):
        await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
    arm("")
    assert await effects(books) == []
    assert (await books.store.deliveries.get(claimed.id)).state == "processing"


async def test_transactions_do_not_use_up_the_store(books: Books) -> None:
    for number in range(12):
        claimed = await books.claimed()
        transaction = await books.store.begin()
        await write(books, transaction, number)
        if number % 3 == 0:
            await transaction.roll_back()
        else:
            await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
    assert len(await effects(books)) == 8


async def test_writers_wait_for_each_other_and_none_is_lost(books: Books) -> None:
    worker = await books.worker()
    claims = [await books.claimed(worker) for _ in range(6)]

    async def handle(number: int) -> None:
        transaction = await books.store.begin()
        await write(books, transaction, number)
        await transaction.complete(settlement(claims[number], Verdict.COMPLETED, START))

    await asyncio.wait_for(asyncio.gather(*map(handle, range(6))), 30)
    assert await effects(books) == [0, 1, 2, 3, 4, 5]


async def test_who_gives_up_waiting_for_a_transaction_harms_nobody(books: Books) -> None:
    claimed = await books.claimed()
    transaction = await books.store.begin()
    waiting = [begin_elsewhere(books) for _ in range(9)]
    await asyncio.wait(waiting, timeout=0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    await write(books, transaction, 7)
    await transaction.complete(settlement(claimed, Verdict.COMPLETED, START))
    async with asyncio.timeout(20):
        await books.deliver()
        assert await effects(books) == [7]


async def test_closing_undoes_what_is_still_open(books: Books, elsewhere: Books) -> None:
    claimed = await books.claimed()
    transaction = await books.store.begin()
    await write(books, transaction, 7)
    waiting = begin_elsewhere(books)
    await asyncio.wait([waiting], timeout=0)
    await asyncio.wait_for(books.store.close(), 20)
    if isinstance(books.store.database, Sqlite):
        with pytest.raises(Conflict, match="the transaction is over"):
            await transaction.execute("select 1")
    waiting.cancel()
    await asyncio.wait([waiting])
    assert await effects(elsewhere) == []
    assert (await elsewhere.store.deliveries.get(claimed.id)).state == "processing"


async def test_on_sqlite_whoever_is_in_a_transaction_is_told_not_to_wait_for_itself(
    books: Books,
) -> None:
    if not isinstance(books.store.database, Sqlite):
        books.store.check_writable()
        return
    id = await books.deliver()
    transaction = await books.store.begin()
    for refused in (
        books.store.deliveries.cancel(id),
        books.store.deliveries.accept([books.request()]),
        books.store.begin(),
    ):
        with pytest.raises(Conflict, match="in a transaction on SQLite"):
            await asyncio.wait_for(refused, 5)
    assert (await books.store.deliveries.get(id)).state == "pending"
    await transaction.roll_back()
    await books.store.deliveries.cancel(id)
    with pytest.raises(Conflict, match="the transaction is over"):
        await transaction.execute("select 1")
