"""Settling: each verdict column by column, and only by whoever holds the lane."""

from datetime import timedelta

import msgspec
import pytest

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.identifiers import worker_of
from duly.domain.deliveries.outcomes import Verdict
from tests.stores.books import START, Books, Row, settlement

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
"""All but the one that only a stream's lane knows."""


async def before(books: Books) -> tuple[Claimed, Row, Row]:
    """A held delivery with every fact, and its rows as they stand."""
    claimed = await books.claimed(**FULL)
    ledger, lane = await books.ledger(claimed.id), await books.lane(claimed.id)
    assert lane is not None
    assert lane["token"] == claimed.token
    return claimed, ledger, lane


async def test_completed_ends_the_lane_and_tells_when(books: Books) -> None:
    claimed, ledger, _ = await before(books)
    assert await books.settle(settlement(claimed, Verdict.COMPLETED, START)) == {claimed.lane}
    assert await books.lane(claimed.id) is None
    assert await books.ledger(claimed.id) == ledger | {
        "state": "completed",
        "attempt": 1,
        "token": claimed.token,
        "started_at": STARTED,
        "finished_at": FINISHED,
    }
    assert await books.history(claimed.id) == []


async def test_completed_after_a_failure_forgets_the_failure(books: Books) -> None:
    claimed, ledger, _ = await before(books)
    await books.settle(settlement(claimed, Verdict.RETRY, START))
    books.clock.advance(100)
    (again,) = await books.claim(await books.worker(), 9, [await books.ask(priority=6)])
    await books.settle(settlement(again, Verdict.COMPLETED, START + timedelta(seconds=100)))
    assert await books.ledger(claimed.id) == ledger | {
        "state": "completed",
        "attempt": 2,
        "token": again.token,
        "started_at": STARTED + timedelta(seconds=100),
        "finished_at": FINISHED + timedelta(seconds=100),
    }
    told = await books.store.deliveries.history(again.id)
    assert [(each.outcome, each.attempt) for each in told] == [("retry", 1), ("completed", 2)]


@pytest.mark.requirement("F2")
async def test_retry_frees_the_lane_for_its_next_time(books: Books) -> None:
    claimed, ledger, lane = await before(books)
    books.clock.advance(10)
    written = settlement(claimed, Verdict.RETRY, START, priority=0, crashes=3)
    assert await books.settle(written) == {claimed.lane}
    next_at = START + timedelta(seconds=10 + 90.5)
    assert await books.lane(claimed.id) == lane | {
        "due_at": next_at,
        "token": None,
        "claimed_at": None,
        "priority": 0,
        "crashes": 3,
    }
    assert await books.ledger(claimed.id) == ledger | {
        "state": "pending",
        "attempt": 1,
        "token": claimed.token,
        "started_at": STARTED,
        "reason": "the reason of retry",
        "error": "the error of retry",
    }
    assert await books.history(claimed.id) == [line(claimed, "retry", 1, next_at=next_at)]
    booked = await books.store.deliveries.get(claimed.id)
    assert (booked.next_at, booked.due_at) == (next_at, FULL["due_at"])


@pytest.mark.requirement("F3")
async def test_dead_ends_the_lane_in_the_same_write(books: Books) -> None:
    claimed, ledger, _ = await before(books)
    assert await books.settle(settlement(claimed, Verdict.DEAD, START)) == {claimed.lane}
    assert await books.lane(claimed.id) is None
    assert await books.ledger(claimed.id) == ledger | {
        "state": "dead",
        "attempt": 1,
        "token": claimed.token,
        "started_at": STARTED,
        "finished_at": FINISHED,
        "dead_at": FINISHED,
        "reason": "the reason of dead",
        "error": "the error of dead",
    }
    assert await books.history(claimed.id) == [line(claimed, "dead", 1)]


async def test_expired_ends_the_lane_as_cancelled(books: Books) -> None:
    claimed, ledger, _ = await before(books)
    assert await books.settle(settlement(claimed, Verdict.EXPIRED, START)) == {claimed.lane}
    assert await books.lane(claimed.id) is None
    assert await books.ledger(claimed.id) == ledger | {
        "state": "cancelled",
        "token": claimed.token,
        "started_at": STARTED,
        "finished_at": FINISHED,
        "reason": "the reason of expired",
        "error": "the error of expired",
    }
    assert await books.history(claimed.id) == [line(claimed, "expired", 0)]


@pytest.mark.parametrize("verdict", [Verdict.RELEASED, Verdict.RECLAIMED, Verdict.DEFERRED])
async def test_handing_back_leaves_the_ledger_alone(books: Books, verdict: Verdict) -> None:
    claimed, ledger, lane = await before(books)
    books.clock.advance(10)
    written = settlement(claimed, verdict, START, priority=0, crashes=2, started_at=None)
    assert await books.settle(written) == {claimed.lane}
    assert await books.ledger(claimed.id) == ledger
    counted = {"priority": 0, "crashes": 2} if verdict is Verdict.RECLAIMED else {}
    assert await books.lane(claimed.id) == lane | {"token": None, "claimed_at": None} | counted
    told = [line(claimed, verdict, 0) | {"started_at": None, "next_at": None}]
    assert await books.history(claimed.id) == ([] if verdict is Verdict.DEFERRED else told)


def line(claimed: Claimed, outcome: str, attempt: int, **changes: object) -> Row:
    """What the history says of it."""
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
        **changes,
    }


async def test_the_history_tells_every_move_in_its_order(books: Books) -> None:
    claimed, *_ = await before(books)
    worker = worker_of(claimed.token)
    for verdict in (Verdict.RELEASED, Verdict.RECLAIMED, Verdict.RETRY, Verdict.COMPLETED):
        written = settlement(claimed, verdict, books.clock.now(), wait=None)
        await books.settle(written)
        books.clock.advance(100)
        found = await books.claim(worker, 9, [await books.ask(priority=6)])
        claimed = found[0] if found else claimed
    moves = [
        (each.outcome, each.before, each.after, each.worker)
        for each in await books.store.deliveries.history(claimed.id)
    ]
    assert moves == [
        ("released", "processing", "pending", worker),
        ("reclaimed", "processing", "pending", worker),
        ("retry", "processing", "pending", worker),
        ("completed", "processing", "completed", worker),
    ]


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_late_worker_cannot_settle(books: Books, verdict: Verdict) -> None:
    claimed, *_ = await before(books)
    assert await books.store.agenda.release(claimed.token) == 1
    (again,) = await books.claim(await books.worker(), 9, [await books.ask(priority=6)])
    ledger, lane = await books.ledger(claimed.id), await books.lane(claimed.id)
    assert await books.settle(settlement(claimed, verdict, START)) == set()
    assert await books.ledger(claimed.id) == ledger
    assert await books.lane(claimed.id) == lane
    assert await books.history(claimed.id) == []
    assert await books.settle(settlement(again, verdict, START)) == {again.lane}


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("verdict", VERDICTS)
async def test_what_nobody_holds_cannot_be_settled(books: Books, verdict: Verdict) -> None:
    claimed, *_ = await before(books)
    await books.store.agenda.release(claimed.token)
    ledger, lane = await books.ledger(claimed.id), await books.lane(claimed.id)
    assert await books.settle(settlement(claimed, verdict, START)) == set()
    assert (await books.ledger(claimed.id), await books.lane(claimed.id)) == (ledger, lane)


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_token_opens_only_its_own_lane(books: Books, verdict: Verdict) -> None:
    worker = await books.worker()
    one, other = await books.claimed(worker), await books.claimed(worker)
    swapped = [
        settlement(one, verdict, START, token=other.token),
        settlement(other, verdict, START, token=one.token),
    ]
    assert await books.settle(*swapped) == set()
    third = await books.claimed(worker)
    mixed = [*swapped, settlement(third, verdict, START)]
    assert await books.settle(*mixed) == {third.lane}
    for each in (one, other):
        assert (await books.store.deliveries.get(each.id)).state == "processing"
        assert await books.history(each.id) == []


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("valid", VERDICTS)
async def test_a_stale_outcome_beside_the_valid_one_changes_nothing(
    books: Books, valid: Verdict
) -> None:
    states = {
        "completed": "completed",
        "dead": "dead",
        "expired": "cancelled",
        "skipped": "cancelled",
    }
    for stale in VERDICTS:
        late = await books.claimed()
        await books.store.agenda.release(late.token)
        (holder,) = await books.claim(await books.worker())
        old = settlement(late, stale, START, reason="stale", error="stale", attempt=33, wait=7.0)
        # Nothing is due when the next round claims.
        new = settlement(holder, valid, START, wait=5000.0)
        assert await books.settle(old, new) == {holder.lane}
        booked = await books.store.deliveries.get(late.id)
        assert booked.state == states.get(valid, "pending")
        assert (booked.attempt, booked.error) != (33, "stale")
        assert (booked.next_at is None) == (valid in states)
        history = await books.history(late.id)
        told = [each["outcome"] for each in history]
        # A completion is told by the ledger, and a wait for an earlier one by nobody.
        assert told == ([] if valid in (Verdict.COMPLETED, Verdict.DEFERRED) else [valid])


@pytest.mark.parametrize("verdict", VERDICTS)
async def test_settling_twice_is_harmless(books: Books, verdict: Verdict) -> None:
    claimed, *_ = await before(books)
    written = settlement(claimed, verdict, START)
    assert await books.settle(written) == {claimed.lane}
    ledger, lane = await books.ledger(claimed.id), await books.lane(claimed.id)
    history = await books.history(claimed.id)
    books.clock.advance(5)
    assert await books.settle(written) == set()
    assert (await books.ledger(claimed.id), await books.lane(claimed.id)) == (ledger, lane)
    assert await books.history(claimed.id) == history


async def test_one_batch_takes_every_verdict(books: Books) -> None:
    worker = await books.worker()
    held = {verdict: await books.claimed(worker) for verdict in VERDICTS}
    applied = await books.settle(
        *(settlement(claimed, verdict, START) for verdict, claimed in held.items())
    )
    assert applied == {claimed.lane for claimed in held.values()}
    states = {
        verdict: (await books.store.deliveries.get(claimed.id)).state
        for verdict, claimed in held.items()
    }
    assert states == {
        "completed": "completed",
        "retry": "pending",
        "dead": "dead",
        "released": "pending",
        "reclaimed": "pending",
        "expired": "cancelled",
        "skipped": "cancelled",
        "deferred": "pending",
    }


async def test_an_empty_batch_is_no_work(books: Books) -> None:
    assert await books.settle() == set()


async def test_times_are_kept_to_the_microsecond(books: Books) -> None:
    moment = START.replace(year=2199, microsecond=999_999)
    claimed = await books.claimed()
    started, finished = moment - timedelta(microseconds=2), moment
    written = settlement(claimed, Verdict.COMPLETED, START)
    written = msgspec.structs.replace(written, started_at=started, finished_at=finished)
    await books.settle(written)
    ledger = await books.ledger(claimed.id)
    assert (ledger["started_at"], ledger["finished_at"]) == (started, finished)


FORBIDDEN = [
    (before, after)
    for before in ("completed", "cancelled", "dead")
    for after in ("pending", "completed", "cancelled", "dead")
    if before != after and (before, after) not in {("dead", "pending"), ("dead", "cancelled")}
]


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(("state", "other"), FORBIDDEN)
async def test_the_store_itself_refuses_a_move_that_is_not_drawn(
    books: Books, state: str, other: str
) -> None:
    id = await books.deliver()
    await books.sql(f"update duly.deliveries set state = '{state}' where id = '{id}'")
    with pytest.raises(Exception, match="cannot"):
        await books.sql(f"update duly.deliveries set state = '{other}' where id = '{id}'")
    assert (await books.ledger(id))["state"] == state


@pytest.mark.requirement("D8")
async def test_the_store_itself_refuses_a_state_that_does_not_exist(books: Books) -> None:
    id = await books.deliver()
    with pytest.raises(Exception, match=r"(?i)check"):
        await books.sql(f"update duly.deliveries set state = 'processing' where id = '{id}'")


@pytest.mark.requirement("D8")
async def test_the_store_itself_lets_a_dead_letter_be_raised(books: Books) -> None:
    id = await books.finished(Verdict.DEAD)
    await books.sql(f"update duly.deliveries set state = 'pending' where id = '{id}'")
    assert (await books.ledger(id))["state"] == "pending"


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.DEAD, Verdict.EXPIRED, Verdict.SKIPPED])
async def test_a_finished_delivery_is_not_moved_even_by_a_holder_of_its_lane(
    books: Books, verdict: Verdict
) -> None:
    claimed = await books.claimed()
    await books.sql(f"update duly.deliveries set state = 'completed' where id = '{claimed.id}'")
    with pytest.raises(Exception, match="cannot"):
        await books.settle(settlement(claimed, verdict, START))
    assert (await books.ledger(claimed.id))["state"] == "completed"
