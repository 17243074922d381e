"""Moves by hand: cancelling and retrying, and their refusals."""

from datetime import timedelta

import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.errors import Conflict, NotFound
from tests.stores.books import START, Books, Row, number_id, settlement

MINUTE = timedelta(minutes=1)


async def every_state(books: Books) -> dict[str, str]:
    """A delivery in each state, by that state."""
    cancelled = await books.deliver()
    await books.store.deliveries.cancel(cancelled)
    return {
        "cancelled": cancelled,
        "processing": (await books.claimed()).id,
        "completed": await books.finished(),
        "dead": await books.finished(Verdict.DEAD),
        "pending": await books.deliver(due_at=START + MINUTE),
    }


async def test_what_is_pending_can_be_cancelled(books: Books) -> None:
    id = await books.deliver(due_at=START + MINUTE, key="k", tags=("a",))
    ledger = await books.ledger(id)
    books.clock.advance(7)
    booked = await books.store.deliveries.cancel(id)
    assert booked.state == "cancelled"
    assert await books.lane(id) is None
    cancelled_at = START + timedelta(seconds=7)
    assert await books.ledger(id) == ledger | {"state": "cancelled", "finished_at": cancelled_at}
    assert await books.history(id) == [moved(id, "cancelled", cancelled_at)]


async def test_a_waiting_retry_can_be_cancelled(books: Books) -> None:
    claimed = await books.claimed()
    await books.settle(settlement(claimed, Verdict.RETRY, START))
    assert (await books.store.deliveries.cancel(claimed.id)).attempt == 1
    books.clock.advance(500)
    assert await books.claim(await books.worker()) == []


async def test_a_dead_letter_gets_a_lane_and_all_its_attempts_back(books: Books) -> None:
    claimed = await books.claimed(priority=8, due_at=START - MINUTE)
    await books.settle(settlement(claimed, Verdict.DEAD, START, crashes=4, attempt=9))
    ledger = await books.ledger(claimed.id)
    books.clock.advance(70)
    retried_at = START + timedelta(seconds=70)
    assert (await books.store.deliveries.retry(claimed.id)).state == "pending"
    assert await books.ledger(claimed.id) == ledger | {
        "state": "pending",
        "attempt": 0,
        "finished_at": None,
        "dead_at": None,
    }
    assert await books.lane(claimed.id) == {
        "due_at": retried_at,
        "token": None,
        "claimed_at": None,
        "target": await books.target(),
        "priority": 8,
        "crashes": 0,
        "schedule": None,
    }
    assert (await books.history(claimed.id))[1:] == [moved(claimed.id, "retried", retried_at)]
    asks = [await books.ask(priority=8)]
    (again,) = await books.claim(await books.worker(), 9, asks)
    assert (again.id, again.attempt) == (claimed.id, 0)


async def test_a_waiting_one_becomes_due_now_and_keeps_its_attempts(books: Books) -> None:
    claimed = await books.claimed()
    await books.settle(settlement(claimed, Verdict.RETRY, START, crashes=1))
    lane, ledger = await books.lane(claimed.id), await books.ledger(claimed.id)
    assert lane is not None
    books.clock.advance(5)
    now = START + timedelta(seconds=5)
    assert (await books.store.deliveries.retry(claimed.id)).next_at == now
    assert await books.lane(claimed.id) == lane | {"due_at": now}
    assert await books.ledger(claimed.id) == ledger


async def test_only_what_is_pending_can_be_cancelled(books: Books) -> None:
    states = await every_state(books)
    for state in ("processing", "completed", "dead"):
        rows = await rows_of(books, states[state])
        with pytest.raises(Conflict, match=f"is {state}; only a pending delivery"):
            await books.store.deliveries.cancel(states[state])
        assert await rows_of(books, states[state]) == rows


async def test_only_what_is_dead_or_waits_can_be_retried(books: Books) -> None:
    states = await every_state(books)
    for state in ("processing", "completed", "cancelled"):
        rows = await rows_of(books, states[state])
        with pytest.raises(Conflict, match=f"is {state}; only a dead or waiting delivery"):
            await books.store.deliveries.retry(states[state])
        assert await rows_of(books, states[state]) == rows


@pytest.mark.parametrize("verb", ["get", "cancel", "retry", "history"])
async def test_what_does_not_exist_is_not_found(books: Books, verb: str) -> None:
    with pytest.raises(NotFound, match=number_id(99)):
        await getattr(books.store.deliveries, verb)(number_id(99))


async def rows_of(books: Books, id: str) -> tuple[Row, Row | None, list[Row]]:
    return await books.ledger(id), await books.lane(id), await books.history(id)


def moved(id: str, outcome: str, at: object) -> Row:
    return {
        "delivery": id,
        "attempt": 0,
        "outcome": outcome,
        "token": None,
        "started_at": None,
        "finished_at": at,
        "next_at": None,
        "reason": None,
        "error": None,
        "answer": None,
        "traceback": None,
    }
