"""Settling: each verdict column by column, and only by the worker that holds the lane."""

from datetime import timedelta

import msgspec
import pytest

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.identifiers import worker_of
from duly.domain.deliveries.outcomes import Verdict
from duly.domain.moments import microseconds
from tests.stores.store_probe import START, Row, StoreProbe, settlement

STARTED = START + timedelta(seconds=1, microseconds=1)
FINISHED = START + timedelta(seconds=2, microseconds=2)
FULL = {
    "due_at": START - timedelta(seconds=30),
    "expires_at": START + timedelta(days=3),
    "key": "its key",
    "tags": ("a", "b"),
    "retry": '{"type":"none"}',
    "payload": b'{"its": "payload"}',
    "priority": 6,
}

VERDICTS = [each for each in Verdict if each is not Verdict.EMPTIED]
"""All verdicts except the one that only the lane of a stream can have."""


async def before(probe: StoreProbe) -> tuple[Claimed, Row, Row]:
    """A held delivery with every field set, and its rows."""
    claimed = await probe.claimed(**FULL)
    ledger, lane = await probe.ledger(claimed.id), await probe.lane(claimed.id)
    assert lane is not None
    assert lane["token"] == claimed.token
    return claimed, ledger, lane


async def test_completed_ends_the_lane_and_records_the_times(probe: StoreProbe) -> None:
    claimed, ledger, _ = await before(probe)
    assert await probe.settle(settlement(claimed, Verdict.COMPLETED, START)) == {claimed.lane}
    assert await probe.lane(claimed.id) is None
    assert await probe.ledger(claimed.id) == ledger | {
        "state": "completed",
        "attempt": 1,
        "token": claimed.token,
        "started_at": STARTED,
        "finished_at": FINISHED,
    }
    assert await probe.history(claimed.id) == []


async def test_completed_after_a_failure_clears_the_failure(probe: StoreProbe) -> None:
    claimed, ledger, _ = await before(probe)
    await probe.settle(settlement(claimed, Verdict.RETRY, START))
    probe.clock.advance(100)
    (second,) = await probe.claim(await probe.worker(), 9, [await probe.claim_request(priority=6)])
    await probe.settle(settlement(second, Verdict.COMPLETED, START + timedelta(seconds=100)))
    assert await probe.ledger(claimed.id) == ledger | {
        "state": "completed",
        "attempt": 2,
        "token": second.token,
        "started_at": STARTED + timedelta(seconds=100),
        "finished_at": FINISHED + timedelta(seconds=100),
    }
    history = await probe.store.deliveries.history(second.id)
    assert [(each.outcome, each.attempt) for each in history] == [("retry", 1), ("completed", 2)]


@pytest.mark.requirement("F2")
async def test_retry_frees_the_lane_until_the_next_attempt(probe: StoreProbe) -> None:
    claimed, ledger, lane = await before(probe)
    probe.clock.advance(10)
    written = settlement(claimed, Verdict.RETRY, START, priority=0, crashes=3)
    assert await probe.settle(written) == {claimed.lane}
    next_at = START + timedelta(seconds=10 + 90.5)
    assert await probe.lane(claimed.id) == lane | {
        "due_at": next_at,
        "token": None,
        "claimed_at": None,
        "priority": 0,
        "crashes": 3,
    }
    assert await probe.ledger(claimed.id) == ledger | {
        "state": "pending",
        "attempt": 1,
        "token": claimed.token,
        "started_at": STARTED,
        "reason": "the reason of retry",
        "error": "the error of retry",
    }
    assert await probe.history(claimed.id) == [history_row(claimed, "retry", 1, next_at=next_at)]
    delivery = await probe.store.deliveries.get(claimed.id)
    assert (delivery.next_at, delivery.due_at) == (next_at, FULL["due_at"])


@pytest.mark.requirement("F3")
async def test_dead_ends_the_lane_in_the_same_write(probe: StoreProbe) -> None:
    claimed, ledger, _ = await before(probe)
    assert await probe.settle(settlement(claimed, Verdict.DEAD, START)) == {claimed.lane}
    assert await probe.lane(claimed.id) is None
    assert await probe.ledger(claimed.id) == ledger | {
        "state": "dead",
        "attempt": 1,
        "token": claimed.token,
        "started_at": STARTED,
        "finished_at": FINISHED,
        "dead_at": FINISHED,
        "reason": "the reason of dead",
        "error": "the error of dead",
    }
    assert await probe.history(claimed.id) == [history_row(claimed, "dead", 1)]


async def test_expired_ends_the_lane_as_cancelled(probe: StoreProbe) -> None:
    claimed, ledger, _ = await before(probe)
    assert await probe.settle(settlement(claimed, Verdict.EXPIRED, START)) == {claimed.lane}
    assert await probe.lane(claimed.id) is None
    assert await probe.ledger(claimed.id) == ledger | {
        "state": "cancelled",
        "token": claimed.token,
        "started_at": STARTED,
        "finished_at": FINISHED,
        "reason": "the reason of expired",
        "error": "the error of expired",
    }
    assert await probe.history(claimed.id) == [history_row(claimed, "expired", 0)]


@pytest.mark.parametrize("verdict", [Verdict.RELEASED, Verdict.RECLAIMED, Verdict.DEFERRED])
async def test_handing_back_does_not_change_the_ledger(probe: StoreProbe, verdict: Verdict) -> None:
    claimed, ledger, lane = await before(probe)
    probe.clock.advance(10)
    written = settlement(claimed, verdict, START, priority=0, crashes=2, started_us=None)
    assert await probe.settle(written) == {claimed.lane}
    assert await probe.ledger(claimed.id) == ledger
    counted = {"priority": 0, "crashes": 2} if verdict is Verdict.RECLAIMED else {}
    assert await probe.lane(claimed.id) == lane | {"token": None, "claimed_at": None} | counted
    expected = [history_row(claimed, verdict, 0) | {"started_at": None, "next_at": None}]
    assert await probe.history(claimed.id) == ([] if verdict is Verdict.DEFERRED else expected)


def history_row(claimed: Claimed, outcome: str, attempt: int, **changes: object) -> Row:
    """The expected row of the history."""
    return {
        "delivery": claimed.id,
        "attempt": attempt,
        "outcome": outcome,
        "token": claimed.token,
        "started_at": STARTED,
        "finished_at": FINISHED,
        "next_at": None,
        "reason": f"the reason of {outcome}",
        "error": f"the error of {outcome}",
        "answer": f'"the answer of {outcome}"',
        "traceback": f"the traceback of {outcome}",
        "exception": f"the class of {outcome}",
        **changes,
    }


async def test_the_history_has_every_change_in_order(probe: StoreProbe) -> None:
    claimed, *_ = await before(probe)
    worker = worker_of(claimed.token)
    for verdict in (Verdict.RELEASED, Verdict.RECLAIMED, Verdict.RETRY, Verdict.COMPLETED):
        written = settlement(claimed, verdict, probe.clock.now(), wait=None)
        await probe.settle(written)
        probe.clock.advance(100)
        found = await probe.claim(worker, 9, [await probe.claim_request(priority=6)])
        claimed = found[0] if found else claimed
    changes_made = [
        (each.outcome, each.before, each.after, each.worker)
        for each in await probe.store.deliveries.history(claimed.id)
    ]
    assert changes_made == [
        ("released", "processing", "pending", worker),
        ("reclaimed", "processing", "pending", worker),
        ("retry", "processing", "pending", worker),
        ("completed", "processing", "completed", worker),
    ]


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_late_worker_cannot_settle(probe: StoreProbe, verdict: Verdict) -> None:
    claimed, *_ = await before(probe)
    assert await probe.store.agenda.release(claimed.token) == 1
    (second,) = await probe.claim(await probe.worker(), 9, [await probe.claim_request(priority=6)])
    ledger, lane = await probe.ledger(claimed.id), await probe.lane(claimed.id)
    assert await probe.settle(settlement(claimed, verdict, START)) == set()
    assert await probe.ledger(claimed.id) == ledger
    assert await probe.lane(claimed.id) == lane
    assert await probe.history(claimed.id) == []
    assert await probe.settle(settlement(second, verdict, START)) == {second.lane}


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_lane_that_is_not_held_cannot_be_settled(
    probe: StoreProbe, verdict: Verdict
) -> None:
    claimed, *_ = await before(probe)
    await probe.store.agenda.release(claimed.token)
    ledger, lane = await probe.ledger(claimed.id), await probe.lane(claimed.id)
    assert await probe.settle(settlement(claimed, verdict, START)) == set()
    assert (await probe.ledger(claimed.id), await probe.lane(claimed.id)) == (ledger, lane)


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_token_settles_only_its_own_lane(probe: StoreProbe, verdict: Verdict) -> None:
    worker = await probe.worker()
    one, other = await probe.claimed(worker), await probe.claimed(worker)
    swapped = [
        settlement(one, verdict, START, token=other.token),
        settlement(other, verdict, START, token=one.token),
    ]
    assert await probe.settle(*swapped) == set()
    third = await probe.claimed(worker)
    mixed = [*swapped, settlement(third, verdict, START)]
    assert await probe.settle(*mixed) == {third.lane}
    for each in (one, other):
        assert (await probe.store.deliveries.get(each.id)).state == "processing"
        assert await probe.history(each.id) == []


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("valid", VERDICTS)
async def test_a_stale_outcome_in_the_same_batch_as_the_valid_one_changes_nothing(
    probe: StoreProbe, valid: Verdict
) -> None:
    states = {
        "completed": "completed",
        "dead": "dead",
        "expired": "cancelled",
        "cancelled": "cancelled",
        "skipped": "cancelled",
    }
    for stale in VERDICTS:
        late = await probe.claimed()
        await probe.store.agenda.release(late.token)
        (holder,) = await probe.claim(await probe.worker())
        old = settlement(late, stale, START, reason="stale", error="stale", attempt=33, wait=7.0)
        # Nothing is due when the next round claims.
        new = settlement(holder, valid, START, wait=5000.0)
        assert await probe.settle(old, new) == {holder.lane}
        delivery = await probe.store.deliveries.get(late.id)
        assert delivery.state == states.get(valid, "pending")
        assert (delivery.attempt, delivery.error) != (33, "stale")
        assert (delivery.next_at is None) == (valid in states)
        history = await probe.history(late.id)
        outcomes = [each["outcome"] for each in history]
        # A completion is only in the ledger, and a deferral is not recorded.
        assert outcomes == ([] if valid in (Verdict.COMPLETED, Verdict.DEFERRED) else [valid])


@pytest.mark.parametrize("verdict", VERDICTS)
async def test_settling_twice_is_harmless(probe: StoreProbe, verdict: Verdict) -> None:
    claimed, *_ = await before(probe)
    written = settlement(claimed, verdict, START)
    assert await probe.settle(written) == {claimed.lane}
    ledger, lane = await probe.ledger(claimed.id), await probe.lane(claimed.id)
    history = await probe.history(claimed.id)
    probe.clock.advance(5)
    assert await probe.settle(written) == set()
    assert (await probe.ledger(claimed.id), await probe.lane(claimed.id)) == (ledger, lane)
    assert await probe.history(claimed.id) == history


async def test_one_batch_can_have_every_verdict(probe: StoreProbe) -> None:
    worker = await probe.worker()
    held = {verdict: await probe.claimed(worker) for verdict in VERDICTS}
    applied = await probe.settle(
        *(settlement(claimed, verdict, START) for verdict, claimed in held.items())
    )
    assert applied == {claimed.lane for claimed in held.values()}
    states = {
        verdict: (await probe.store.deliveries.get(claimed.id)).state
        for verdict, claimed in held.items()
    }
    assert states == {
        "completed": "completed",
        "retry": "pending",
        "dead": "dead",
        "released": "pending",
        "reclaimed": "pending",
        "expired": "cancelled",
        "cancelled": "cancelled",
        "skipped": "cancelled",
        "deferred": "pending",
    }


async def test_an_empty_batch_does_nothing(probe: StoreProbe) -> None:
    assert await probe.settle() == set()


async def test_times_are_kept_to_the_microsecond(probe: StoreProbe) -> None:
    moment = START.replace(year=2199, microsecond=999_999)
    claimed = await probe.claimed()
    started, finished = moment - timedelta(microseconds=2), moment
    written = settlement(claimed, Verdict.COMPLETED, START)
    written = msgspec.structs.replace(
        written, started_us=microseconds(started), finished_us=microseconds(finished)
    )
    await probe.settle(written)
    ledger = await probe.ledger(claimed.id)
    assert (ledger["started_at"], ledger["finished_at"]) == (started, finished)


FORBIDDEN = [
    (before, after)
    for before in ("completed", "cancelled", "dead")
    for after in ("pending", "completed", "cancelled", "dead")
    if before != after and (before, after) not in {("dead", "pending"), ("dead", "cancelled")}
]


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(("state", "other"), FORBIDDEN)
async def test_the_store_refuses_a_move_that_is_not_allowed(
    probe: StoreProbe, state: str, other: str
) -> None:
    id = await probe.deliver()
    await probe.sql(f"update duly.deliveries set state = '{state}' where id = '{id}'")
    with pytest.raises(Exception, match="cannot"):
        await probe.sql(f"update duly.deliveries set state = '{other}' where id = '{id}'")
    assert (await probe.ledger(id))["state"] == state


@pytest.mark.requirement("D8")
async def test_the_store_refuses_an_unknown_state(probe: StoreProbe) -> None:
    id = await probe.deliver()
    with pytest.raises(Exception, match=r"(?i)check"):
        await probe.sql(f"update duly.deliveries set state = 'processing' where id = '{id}'")


@pytest.mark.requirement("D8")
async def test_the_store_allows_a_dead_letter_to_become_pending(probe: StoreProbe) -> None:
    id = await probe.finished(Verdict.DEAD)
    await probe.sql(f"update duly.deliveries set state = 'pending' where id = '{id}'")
    assert (await probe.ledger(id))["state"] == "pending"


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.DEAD, Verdict.EXPIRED, Verdict.SKIPPED])
async def test_a_finished_delivery_is_not_changed_even_by_the_holder_of_its_lane(
    probe: StoreProbe, verdict: Verdict
) -> None:
    claimed = await probe.claimed()
    await probe.sql(f"update duly.deliveries set state = 'completed' where id = '{claimed.id}'")
    with pytest.raises(Exception, match="cannot"):
        await probe.settle(settlement(claimed, verdict, START))
    assert (await probe.ledger(claimed.id))["state"] == "completed"
