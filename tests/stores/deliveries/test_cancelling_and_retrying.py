"""Cancelling and retrying by hand, and when they are refused."""

from datetime import timedelta

import pytest

from duly.domain.deliveries.outcomes import Verdict
from duly.errors import Conflict, NotFound
from tests.stores.store_probe import START, Row, StoreProbe, number_id, settlement

MINUTE = timedelta(minutes=1)


async def every_state(probe: StoreProbe) -> dict[str, str]:
    """A delivery in each state, by that state."""
    cancelled = await probe.deliver()
    await probe.store.deliveries.cancel(cancelled)
    return {
        "cancelled": cancelled,
        "processing": (await probe.claimed()).id,
        "completed": await probe.finished(),
        "dead": await probe.finished(Verdict.DEAD),
        "pending": await probe.deliver(due_at=START + MINUTE),
    }


async def test_a_pending_delivery_can_be_cancelled(probe: StoreProbe) -> None:
    id = await probe.deliver(due_at=START + MINUTE, key="k", tags=("a",))
    ledger = await probe.ledger(id)
    probe.clock.advance(7)
    delivery = await probe.store.deliveries.cancel(id)
    assert delivery.state == "cancelled"
    assert await probe.lane(id) is None
    cancelled_at = START + timedelta(seconds=7)
    assert await probe.ledger(id) == ledger | {"state": "cancelled", "finished_at": cancelled_at}
    assert await probe.history(id) == [history_row(id, "cancelled", cancelled_at)]


async def test_a_waiting_retry_can_be_cancelled(probe: StoreProbe) -> None:
    claimed = await probe.claimed()
    await probe.settle(settlement(claimed, Verdict.RETRY, START))
    assert (await probe.store.deliveries.cancel(claimed.id)).attempt == 1
    probe.clock.advance(500)
    assert await probe.claim(await probe.worker()) == []


async def test_a_retried_dead_letter_gets_a_lane_and_all_its_attempts(probe: StoreProbe) -> None:
    claimed = await probe.claimed(priority=8, due_at=START - MINUTE)
    await probe.settle(settlement(claimed, Verdict.DEAD, START, crashes=4, attempt=9))
    ledger = await probe.ledger(claimed.id)
    probe.clock.advance(70)
    retried_at = START + timedelta(seconds=70)
    assert (await probe.store.deliveries.retry(claimed.id)).state == "pending"
    assert await probe.ledger(claimed.id) == ledger | {
        "state": "pending",
        "attempt": 0,
        "finished_at": None,
        "dead_at": None,
    }
    assert await probe.lane(claimed.id) == {
        "due_at": retried_at,
        "token": None,
        "claimed_at": None,
        "target": await probe.target(),
        "priority": 8,
        "crashes": 0,
        "schedule": None,
        "turn": None,
    }
    assert (await probe.history(claimed.id))[1:] == [history_row(claimed.id, "retried", retried_at)]
    requests = [await probe.claim_request(priority=8)]
    (second,) = await probe.claim(await probe.worker(), 9, requests)
    assert (second.id, second.attempt) == (claimed.id, 0)


async def test_a_retried_waiting_delivery_is_due_now_and_keeps_its_attempts(
    probe: StoreProbe,
) -> None:
    claimed = await probe.claimed()
    await probe.settle(settlement(claimed, Verdict.RETRY, START, crashes=1))
    lane, ledger = await probe.lane(claimed.id), await probe.ledger(claimed.id)
    assert lane is not None
    probe.clock.advance(5)
    now = START + timedelta(seconds=5)
    assert (await probe.store.deliveries.retry(claimed.id)).next_at == now
    assert await probe.lane(claimed.id) == lane | {"due_at": now}
    assert await probe.ledger(claimed.id) == ledger


async def test_only_a_pending_or_running_delivery_can_be_cancelled(probe: StoreProbe) -> None:
    states = await every_state(probe)
    asked = await probe.store.deliveries.cancel(states["processing"])
    assert (asked.state, asked.cancel_asked_at is not None) == ("processing", True)
    with pytest.raises(Conflict, match="is processing; only a pending or running delivery"):
        await probe.store.deliveries.cancel(states["processing"], running=False)
    for state in ("completed", "dead"):
        rows = await rows_of(probe, states[state])
        with pytest.raises(Conflict, match=f"is {state}; only a pending or running delivery"):
            await probe.store.deliveries.cancel(states[state])
        assert await rows_of(probe, states[state]) == rows


async def test_only_a_dead_or_waiting_delivery_can_be_retried(probe: StoreProbe) -> None:
    states = await every_state(probe)
    for state in ("processing", "completed", "cancelled"):
        rows = await rows_of(probe, states[state])
        with pytest.raises(Conflict, match=f"is {state}; only a dead or waiting delivery"):
            await probe.store.deliveries.retry(states[state])
        assert await rows_of(probe, states[state]) == rows


@pytest.mark.parametrize("verb", ["get", "cancel", "retry", "history"])
async def test_an_unknown_delivery_is_not_found(probe: StoreProbe, verb: str) -> None:
    with pytest.raises(NotFound, match=number_id(99)):
        await getattr(probe.store.deliveries, verb)(number_id(99))


async def rows_of(probe: StoreProbe, id: str) -> tuple[Row, Row | None, list[Row]]:
    return await probe.ledger(id), await probe.lane(id), await probe.history(id)


def history_row(id: str, outcome: str, at: object) -> Row:
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
        "exception": None,
    }
