"""Surveying and claiming: only due deliveries, within the limits, and never twice."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

import duly
from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.identifiers import token, worker_of
from duly.domain.deliveries.outcomes import Verdict
from duly.ports import ClaimableGroup, ClaimRequest
from tests.stores.store_probe import START, StoreProbe, settlement
from tests.support.postgres import ForeignServer, Server

SECOND = timedelta(seconds=1)


async def test_a_survey_returns_the_earliest_due_moment_of_each_group(probe: StoreProbe) -> None:
    await probe.deliver(priority=2, due_at=START + 5 * SECOND)
    await probe.deliver(priority=2, due_at=START - 5 * SECOND)
    await probe.deliver(priority=9, due_at=START + 7 * SECOND)
    await probe.deliver(priority=2, target="sms", due_at=START - 3 * SECOND)
    mail, sms = await probe.target(), await probe.target("sms")
    found = await probe.store.agenda.survey()
    assert sorted(found, key=lambda each: each.due_at) == [
        ClaimableGroup(2, mail, START - 5 * SECOND, START),
        ClaimableGroup(2, sms, START - 3 * SECOND, START),
        ClaimableGroup(9, mail, START + 7 * SECOND, START),
    ]


async def test_a_survey_ignores_held_lanes(probe: StoreProbe) -> None:
    assert await probe.store.agenda.survey() == []
    await probe.claimed()
    assert await probe.store.agenda.survey() == []
    await probe.deliver(due_at=START + SECOND)
    (group,) = await probe.store.agenda.survey()
    assert group.due_at == START + SECOND


async def test_a_claim_returns_every_field(probe: StoreProbe) -> None:
    worker = await probe.worker()
    id = await probe.deliver(
        priority=5,
        payload=b'{"all": 1}',
        due_at=START - 30 * SECOND,
        expires_at=START + 77 * SECOND,
        retry='{"type":"none"}',
        key="a key",
    )
    (claimed,) = await probe.claim(worker)
    expected = Claimed(
        id=id,
        lane=claimed.lane,
        token=token(worker, 1),
        target=await probe.target(),
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
    assert claimed == expected
    assert await probe.lane(id) == {
        "due_at": START - 30 * SECOND,
        "token": token(worker, 1),
        "claimed_at": START,
        "target": await probe.target(),
        "priority": 5,
        "crashes": 0,
        "schedule": None,
        "turn": None,
    }
    delivery = await probe.store.deliveries.get(id)
    assert (delivery.state, delivery.worker, delivery.claimed_at) == ("processing", worker, START)


async def test_a_later_claim_returns_attempts_crashes_and_both_due_moments(
    probe: StoreProbe,
) -> None:
    claimed = await probe.claimed(due_at=START - SECOND)
    await probe.settle(settlement(claimed, Verdict.RETRY, START, wait=30.0, attempt=4, crashes=1))
    probe.clock.advance(31)
    (second,) = await probe.claim(await probe.worker())
    assert (second.attempt, second.crashes) == (4, 1)
    assert (second.due_at, second.ready_at) == (START - SECOND, START + 30 * SECOND)


@pytest.mark.requirement("D2")
async def test_only_due_deliveries_are_claimed_however_late(probe: StoreProbe) -> None:
    worker = await probe.worker()
    late = await probe.deliver(due_at=START - timedelta(days=700))
    now = await probe.deliver(due_at=START)
    soon = await probe.deliver(due_at=START + timedelta(microseconds=1))
    assert {each.id for each in await probe.claim(worker)} == {late, now}
    assert await probe.claim(worker) == []
    probe.clock.advance(timedelta(microseconds=1))
    assert [each.id for each in await probe.claim(worker)] == [soon]


@pytest.mark.requirement("D6")
async def test_a_claim_takes_at_most_its_slots(probe: StoreProbe) -> None:
    worker = await probe.worker()
    for priority in (9, 9, 9, 1, 1, 1):
        await probe.deliver(priority=priority)
    requests = [await probe.claim_request(priority=9), await probe.claim_request(priority=1)]
    found = await probe.claim(worker, 4, requests)
    assert Counter(each.priority for each in found) == {9: 3, 1: 1}
    assert [each.priority for each in await probe.claim(worker, 4, requests)] == [1, 1]


async def test_a_claim_takes_at_most_the_quota_of_each_request(probe: StoreProbe) -> None:
    worker = await probe.worker()
    for target in ("mail", "mail", "mail", "sms", "sms", "sms"):
        await probe.deliver(target=target)
    requests = [
        await probe.claim_request(quota=1),
        await probe.claim_request(target="sms", quota=2),
    ]
    found = await probe.claim(worker, 99, requests)
    mail, sms = await probe.target(), await probe.target("sms")
    assert Counter(each.target for each in found) == {mail: 1, sms: 2}


async def test_within_a_priority_the_oldest_is_claimed_first(probe: StoreProbe) -> None:
    worker = await probe.worker()
    ids = {age: await probe.deliver(due_at=START - age * SECOND) for age in (10, 40, 20, 50, 30)}
    order = [(await probe.claim(worker, 1))[0].id for _ in range(5)]
    assert order == [ids[age] for age in (50, 40, 30, 20, 10)]


async def test_claim_requests_are_served_in_their_order(probe: StoreProbe) -> None:
    worker = await probe.worker()
    low, high = await probe.deliver(priority=1), await probe.deliver(priority=9)
    requests = [await probe.claim_request(priority=9), await probe.claim_request(priority=1)]
    assert [(await probe.claim(worker, 1, requests))[0].id for _ in range(2)] == [high, low]


async def test_deliveries_due_before_the_floor_are_not_claimed(probe: StoreProbe) -> None:
    worker = await probe.worker()
    below = await probe.deliver(due_at=START - 20 * SECOND)
    at = await probe.deliver(due_at=START - 10 * SECOND)
    found = await probe.claim(worker, 9, [await probe.claim_request(floor=START - 10 * SECOND)])
    assert [each.id for each in found] == [at]
    assert [each.id for each in await probe.claim(worker)] == [below]


@pytest.mark.requirement("D7")
async def test_a_worker_that_is_dead_or_unknown_gets_nothing(probe: StoreProbe) -> None:
    await probe.deliver()
    stopped, dead = await probe.worker(), await probe.worker()
    await probe.store.workers.end(stopped)
    alive = await probe.worker()
    await probe.store.workers.declare_dead(survivor=alive)
    assert await probe.claim(stopped) == []
    assert await probe.claim(dead) == []
    assert await probe.claim(987_654) == []
    assert len(await probe.claim(alive)) == 1


@pytest.mark.requirement("D6")
async def test_two_claims_never_share_a_lane(probe: StoreProbe, other_process: StoreProbe) -> None:
    for _ in range(120):
        await probe.accept(probe.request())
    ours, theirs = await probe.worker(), await other_process.worker()
    other_process._claims = 1000
    found = await asyncio.gather(
        *(
            probe.claim(ours, 7) if number % 2 else other_process.claim(theirs, 7)
            for number in range(24)
        )
    )
    taken = Counter(each.id for claim in found for each in claim)
    assert len(taken) == 120
    assert set(taken.values()) == {1}
    by = Counter(worker_of(each.token) for claim in found for each in claim)
    assert by.keys() == {ours, theirs}


async def test_a_lane_without_its_delivery_is_returned_without_an_id(probe: StoreProbe) -> None:
    worker = await probe.worker()
    gone, present = await probe.deliver(), await probe.deliver()
    await probe.sql(f"delete from duly.deliveries where id = '{gone}'")
    found = await probe.claim(worker)
    assert sorted([each.id for each in found], key=str) == sorted([None, present], key=str)
    assert all(each.lane is not None for each in found)


@pytest.mark.requirement("D7")
async def test_releasing_a_token_frees_its_lanes_unchanged(probe: StoreProbe) -> None:
    worker = await probe.worker()
    one = await probe.claimed(worker)
    ledger, lane = await probe.ledger(one.id), await probe.lane(one.id)
    assert lane is not None
    other = await probe.claimed(worker)
    assert one.token != other.token
    assert await probe.store.agenda.release(one.token) == 1
    assert await probe.lane(one.id) == lane | {"token": None, "claimed_at": None}
    assert await probe.ledger(one.id) == ledger
    assert (await probe.lane(other.id) or {})["token"] == other.token
    assert await probe.store.agenda.release(one.token) == 0


@pytest.mark.requirement("D6")
async def test_the_first_claim_requests_get_the_slots(probe: StoreProbe) -> None:
    """With more requests than slots, the first get them: higher priorities come first."""
    names = [f"mail{n}" for n in range(60)]
    for priority in (9, 1):
        await probe.accept(*(probe.request(target=name, priority=priority) for name in names))
    worker = await probe.worker()
    requests = [
        ClaimRequest(priority, await probe.target(name), START - SECOND, 1)
        for priority in (9, 1)
        for name in names
    ]
    claimed = await probe.store.agenda.claim(token(worker, 1), 10, requests)
    assert [each.priority for each in claimed] == [9] * 10


@pytest.mark.requirement("D5")
async def test_claiming_works_on_a_database_that_is_serializable_by_default(
    postgres: ForeignServer | Server, postgres_url: str
) -> None:
    name = postgres_url.rsplit("/", 1)[-1]
    serializable = "default_transaction_isolation = serializable"
    await postgres._execute(f'alter database "{name}" set {serializable}')
    async with duly.App(postgres_url) as app, app.transaction() as tx:
        assert await tx.fetch("show transaction_isolation") == [("read committed",)]


async def test_jit_compilation_is_off_in_postgresql(postgres_url: str) -> None:
    async with duly.App(postgres_url) as app, app.transaction() as tx:
        assert await tx.fetch("show jit") == [("off",)]
