"""Surveying and claiming: what is due, no more than asked for, and never twice."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

import duly
from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.identifiers import token, worker_of
from duly.domain.deliveries.outcomes import Verdict
from duly.ports import ClaimableGroup, ClaimRequest
from tests.stores.books import START, Books, settlement
from tests.support.postgres import ForeignServer, Server

SECOND = timedelta(seconds=1)


async def test_a_survey_names_each_opening_with_its_first_due_moment(books: Books) -> None:
    await books.deliver(priority=2, due_at=START + 5 * SECOND)
    await books.deliver(priority=2, due_at=START - 5 * SECOND)
    await books.deliver(priority=9, due_at=START + 7 * SECOND)
    await books.deliver(priority=2, target="sms", due_at=START - 3 * SECOND)
    mail, sms = await books.target(), await books.target("sms")
    found = await books.store.agenda.survey()
    assert sorted(found, key=lambda each: each.due_at) == [
        ClaimableGroup(2, mail, START - 5 * SECOND, START),
        ClaimableGroup(2, sms, START - 3 * SECOND, START),
        ClaimableGroup(9, mail, START + 7 * SECOND, START),
    ]


async def test_a_survey_does_not_see_what_is_held(books: Books) -> None:
    assert await books.store.agenda.survey() == []
    await books.claimed()
    assert await books.store.agenda.survey() == []
    await books.deliver(due_at=START + SECOND)
    (opening,) = await books.store.agenda.survey()
    assert opening.due_at == START + SECOND


async def test_a_claim_tells_every_fact(books: Books) -> None:
    worker = await books.worker()
    id = await books.deliver(
        priority=5,
        payload=b'{"all": 1}',
        due_at=START - 30 * SECOND,
        expires_at=START + 77 * SECOND,
        retry='{"type":"none"}',
        key="a key",
    )
    (claimed,) = await books.claim(worker)
    again = Claimed(
        id=id,
        lane=claimed.lane,
        token=token(worker, 1),
        target=await books.target(),
        payload=b'{"all": 1}',
        attempt=0,
        priority=5,
        crashes=0,
        due_at=START - 30 * SECOND,
        ready_at=START - 30 * SECOND,
        expires_at=START + 77 * SECOND,
        retry='{"type":"none"}',
        key="a key",
        expires_in=77.0,
    )
    assert claimed == again
    assert await books.lane(id) == {
        "due_at": START - 30 * SECOND,
        "token": token(worker, 1),
        "claimed_at": START,
        "target": await books.target(),
        "priority": 5,
        "crashes": 0,
        "schedule": None,
    }
    booked = await books.store.deliveries.get(id)
    assert (booked.state, booked.worker, booked.claimed_at) == ("processing", worker, START)


async def test_a_later_claim_tells_attempts_crashes_and_both_due_moments(books: Books) -> None:
    claimed = await books.claimed(due_at=START - SECOND)
    await books.settle(settlement(claimed, Verdict.RETRY, START, wait=30.0, attempt=4, crashes=1))
    books.clock.advance(31)
    (again,) = await books.claim(await books.worker())
    assert (again.attempt, again.crashes) == (4, 1)
    assert (again.due_at, again.ready_at) == (START - SECOND, START + 30 * SECOND)


@pytest.mark.requirement("D2")
async def test_only_what_is_due_is_claimed_however_late(books: Books) -> None:
    worker = await books.worker()
    late = await books.deliver(due_at=START - timedelta(days=700))
    now = await books.deliver(due_at=START)
    soon = await books.deliver(due_at=START + timedelta(microseconds=1))
    assert {each.id for each in await books.claim(worker)} == {late, now}
    assert await books.claim(worker) == []
    books.clock.advance(timedelta(microseconds=1))
    assert [each.id for each in await books.claim(worker)] == [soon]


@pytest.mark.requirement("D6")
async def test_a_claim_takes_at_most_its_slots(books: Books) -> None:
    worker = await books.worker()
    for priority in (9, 9, 9, 1, 1, 1):
        await books.deliver(priority=priority)
    asks = [await books.ask(priority=9), await books.ask(priority=1)]
    found = await books.claim(worker, 4, asks)
    assert Counter(each.priority for each in found) == {9: 3, 1: 1}
    assert [each.priority for each in await books.claim(worker, 4, asks)] == [1, 1]


async def test_a_claim_takes_at_most_the_quota_of_each_ask(books: Books) -> None:
    worker = await books.worker()
    for target in ("mail", "mail", "mail", "sms", "sms", "sms"):
        await books.deliver(target=target)
    asks = [await books.ask(quota=1), await books.ask(target="sms", quota=2)]
    found = await books.claim(worker, 99, asks)
    mail, sms = await books.target(), await books.target("sms")
    assert Counter(each.target for each in found) == {mail: 1, sms: 2}


async def test_within_a_level_the_oldest_goes_first(books: Books) -> None:
    worker = await books.worker()
    ids = {age: await books.deliver(due_at=START - age * SECOND) for age in (10, 40, 20, 50, 30)}
    order = [(await books.claim(worker, 1))[0].id for _ in range(5)]
    assert order == [ids[age] for age in (50, 40, 30, 20, 10)]


async def test_asks_are_served_in_their_order(books: Books) -> None:
    worker = await books.worker()
    low, high = await books.deliver(priority=1), await books.deliver(priority=9)
    asks = [await books.ask(priority=9), await books.ask(priority=1)]
    assert [(await books.claim(worker, 1, asks))[0].id for _ in range(2)] == [high, low]


async def test_nothing_below_the_floor_is_looked_at(books: Books) -> None:
    worker = await books.worker()
    below = await books.deliver(due_at=START - 20 * SECOND)
    at = await books.deliver(due_at=START - 10 * SECOND)
    found = await books.claim(worker, 9, [await books.ask(floor=START - 10 * SECOND)])
    assert [each.id for each in found] == [at]
    assert [each.id for each in await books.claim(worker)] == [below]


@pytest.mark.requirement("D7")
async def test_a_worker_that_is_dead_or_unknown_gets_nothing(books: Books) -> None:
    await books.deliver()
    stopped, dead = await books.worker(), await books.worker()
    await books.store.workers.end(stopped)
    alive = await books.worker()
    await books.store.workers.declare_dead(survivor=alive)
    assert await books.claim(stopped) == []
    assert await books.claim(dead) == []
    assert await books.claim(987_654) == []
    assert len(await books.claim(alive)) == 1


@pytest.mark.requirement("D6")
async def test_two_claims_never_share_a_lane(books: Books, elsewhere: Books) -> None:
    for _ in range(120):
        await books.accept(books.request())
    ours, theirs = await books.worker(), await elsewhere.worker()
    elsewhere._claims = 1000
    found = await asyncio.gather(
        *(
            books.claim(ours, 7) if number % 2 else elsewhere.claim(theirs, 7)
            for number in range(24)
        )
    )
    taken = Counter(each.id for claim in found for each in claim)
    assert len(taken) == 120
    assert set(taken.values()) == {1}
    by = Counter(worker_of(each.token) for claim in found for each in claim)
    assert by.keys() == {ours, theirs}


async def test_a_lane_whose_delivery_is_gone_is_returned_without_it(books: Books) -> None:
    worker = await books.worker()
    gone, there = await books.deliver(), await books.deliver()
    await books.sql(f"delete from duly.deliveries where id = '{gone}'")
    found = await books.claim(worker)
    assert sorted([each.id for each in found], key=str) == sorted([None, there], key=str)
    assert all(each.lane is not None for each in found)


@pytest.mark.requirement("D7")
async def test_releasing_a_token_hands_back_untouched_what_it_holds(books: Books) -> None:
    worker = await books.worker()
    one = await books.claimed(worker)
    ledger, lane = await books.ledger(one.id), await books.lane(one.id)
    assert lane is not None
    other = await books.claimed(worker)
    assert one.token != other.token
    assert await books.store.agenda.release(one.token) == 1
    assert await books.lane(one.id) == lane | {"token": None, "claimed_at": None}
    assert await books.ledger(one.id) == ledger
    assert (await books.lane(other.id) or {})["token"] == other.token
    assert await books.store.agenda.release(one.token) == 0


@pytest.mark.requirement("D6")
async def test_what_is_asked_for_first_is_taken_first(books: Books) -> None:
    """With more asks than slots, the first ones get them: higher priorities come first."""
    names = [f"mail{n}" for n in range(60)]
    for priority in (9, 1):
        await books.accept(*(books.request(target=name, priority=priority) for name in names))
    worker = await books.worker()
    asks = [
        ClaimRequest(priority, await books.target(name), START - SECOND, 1)
        for priority in (9, 1)
        for name in names
    ]
    claimed = await books.store.agenda.claim(token(worker, 1), 10, asks)
    assert [each.priority for each in claimed] == [9] * 10


@pytest.mark.requirement("D5")
async def test_a_database_that_is_serializable_as_it_comes_is_claimed_from_all_the_same(
    postgres: ForeignServer | Server, postgres_url: str
) -> None:
    name = postgres_url.rsplit("/", 1)[-1]
    serializable = "default_transaction_isolation = serializable"
    await postgres._execute(f'alter database "{name}" set {serializable}')
    async with duly.App(postgres_url) as app, app.transaction() as tx:
        assert await tx.fetch("show transaction_isolation") == [("read committed",)]


async def test_postgresql_compiles_nothing_for_us(postgres_url: str) -> None:
    async with duly.App(postgres_url) as app, app.transaction() as tx:
        assert await tx.fetch("show jit") == [("off",)]
