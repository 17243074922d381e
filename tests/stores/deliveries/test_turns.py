"""Lanes with fair keys and limit keys: they are claimed key by key, within the limits."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import datetime, timedelta

import asyncpg
import pytest

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.identifiers import token
from duly.domain.deliveries.outcomes import Verdict
from duly.domain.endpoints.gates import NO_LIMITS, TargetLimits
from duly.domain.turns import FAIR, LIMIT
from duly.ports import ClaimRequest, Round
from duly.testing import VirtualClock
from tests.stores.store_probe import (
    LONG_AGO,
    START,
    StoreProbe,
    number_id,
    open_probe,
    settlement,
)

SECOND = timedelta(seconds=1)


class Claimer:
    """A worker that claims lanes with keys, round after round."""

    def __init__(self, probe: StoreProbe, worker: int, limits: TargetLimits = NO_LIMITS) -> None:
        self.worker = worker
        self.after = ""
        self.held: list[Claimed] = []
        self.last: Round | None = None
        self._probe = probe
        self._limits = limits
        self._claims = 1000

    async def claim(self, quota: int, priority: int = 5, early: int = 0) -> list[Claimed]:
        self._claims += 1
        target = await self._probe.target()
        ahead = None if self.last is None else self.last.ahead
        given = (self.after, self._limits, ahead, self._probe.clock.now() if ahead else None)
        ask = ClaimRequest(priority, target, LONG_AGO, quota, True, *given, early=early)
        found = await self._probe.store.turns.claim(token(self.worker, self._claims), quota, [ask])
        (self.last,) = found.rounds
        self.after = self.last.after
        self.held.extend(found.claimed)
        return found.claimed

    async def finish(self, claimed: Claimed, verdict: Verdict = Verdict.COMPLETED) -> None:
        self.held.remove(claimed)
        await self._probe.settle(settlement(claimed, verdict, self._probe.clock.now()))


async def keyed(probe: StoreProbe, **counts: int) -> None:
    """Deliver as many as given for each fair key."""
    await probe.accept(
        *(probe.request(turn=FAIR + key) for key, many in counts.items() for _ in range(many))
    )


def keys(claimed: list[Claimed]) -> Counter[str]:
    return Counter((each.turn or "").partition(":")[2] for each in claimed)


@pytest.mark.requirement("P10")
async def test_keys_share_a_claim_evenly(probe: StoreProbe) -> None:
    await keyed(probe, flooded=50, small=1, other=20)
    worker = Claimer(probe, await probe.worker())
    assert keys(await worker.claim(9)) == {"flooded": 3, "other": 3, "small": 1}


@pytest.mark.requirement("P10")
async def test_a_claim_goes_on_after_the_last_key_of_the_one_before(probe: StoreProbe) -> None:
    await keyed(probe, **{f"key-{number}": 3 for number in range(5)})
    worker = Claimer(probe, await probe.worker())
    assert keys(await worker.claim(2)) == {"key-0": 1, "key-1": 1}
    assert keys(await worker.claim(2)) == {"key-2": 1, "key-3": 1}
    assert keys(await worker.claim(2)) == {"key-4": 2}
    assert worker.after == ""


@pytest.mark.requirement("P10")
async def test_other_claims_never_see_lanes_with_keys(probe: StoreProbe) -> None:
    await keyed(probe, one=2)
    plain = await probe.deliver()
    assert [each.id for each in await probe.claim(await probe.worker())] == [plain]
    groups = await probe.store.agenda.survey()
    assert [(each.target, each.turns) for each in groups] == [(await probe.target(), True)]


@pytest.mark.requirement("P10")
async def test_what_is_due_later_is_not_claimed(probe: StoreProbe) -> None:
    await probe.accept(probe.request(turn=FAIR + "later", after=60.0))
    await keyed(probe, now=1)
    worker = Claimer(probe, await probe.worker())
    assert keys(await worker.claim(9)) == {"now": 1}
    probe.clock.advance(61)
    assert keys(await worker.claim(9)) == {"later": 1}


@pytest.mark.requirement("P6")
async def test_a_key_has_no_more_in_flight_than_its_limit(probe: StoreProbe) -> None:
    await probe.accept(*(probe.request(turn=LIMIT + "customer:7") for _ in range(9)))
    workers = [
        Claimer(probe, await probe.worker(f"host:{number}"), TargetLimits(in_flight=2))
        for number in range(2)
    ]
    assert len(await workers[0].claim(9)) == 2
    assert await workers[1].claim(9) == []
    assert workers[1].last is not None
    assert workers[1].last.again_at is not None
    await workers[0].finish(workers[0].held[0], Verdict.RETRY)
    assert len(await workers[1].claim(9)) == 1


@pytest.mark.requirement("P6")
async def test_a_rate_lets_one_key_start_as_often_as_it_says(probe: StoreProbe) -> None:
    await probe.accept(*(probe.request(turn=LIMIT + "customer:7") for _ in range(99)))
    worker = Claimer(probe, await probe.worker(), TargetLimits(rate=5))
    started = 0
    for _ in range(100):
        started += len(await worker.claim(9))
        probe.clock.advance(0.1)
    assert 49 <= started <= 52


@pytest.mark.requirement("P6")
async def test_workers_that_claim_at_once_never_exceed_a_limit(
    probe: StoreProbe, other_process: StoreProbe
) -> None:
    for _ in range(8):
        await probe.accept(*(probe.request(turn=LIMIT + "a") for _ in range(9)))
        await probe.accept(*(probe.request(turn=LIMIT + "b") for _ in range(9)))
        claimers = [
            Claimer(each, await each.worker(f"host:{number}"), TargetLimits(in_flight=3))
            for number in range(6)
            for each in (probe, other_process)
        ]
        claimed = await asyncio.gather(*(each.claim(9) for each in claimers))
        held = keys([each for part in claimed for each in part])
        assert max(held.values()) <= 3
        for claimer in claimers:
            for each in list(claimer.held):
                await claimer.finish(each)


@pytest.mark.requirement("P6")
async def test_a_changed_key_gives_nothing_to_a_claim_decided_before(probe: StoreProbe) -> None:
    await probe.accept(*(probe.request(turn=LIMIT + key) for key in "ab" for _ in range(9)))
    first, second = [
        Claimer(probe, await probe.worker(f"host:{number}"), TargetLimits(in_flight=2))
        for number in range(2)
    ]
    for _ in range(2):  # the key has no row at first, then one
        # The second worker has read both keys, then the first one claims.
        assert keys(await second.claim(1)) == {"a": 1}
        assert keys(await first.claim(9)) == {"a": 1, "b": 2}
        assert await second.claim(1) == []
        for claimer in (first, second):
            for each in list(claimer.held):
                await claimer.finish(each)
        assert second.after == ""


@pytest.mark.requirement("P6")
async def test_a_claim_of_keys_read_before_counts_what_others_claimed_since(
    probe: StoreProbe, other_process: StoreProbe
) -> None:
    await probe.accept(*(probe.request(turn=LIMIT + "a") for _ in range(40)))
    limits = TargetLimits(in_flight=10)
    first = Claimer(probe, await probe.worker("host:1"), limits)
    second = Claimer(other_process, await probe.worker("host:2"), limits)
    assert len(await first.claim(1)) == 1
    assert first.last is not None
    assert first.last.ahead is not None
    assert len(await second.claim(5)) == 5
    assert len(await first.claim(9)) == 4
    assert await second.claim(9) == []
    for each in list(second.held):
        await second.finish(each)
    assert len(await first.claim(9)) == 5


@pytest.mark.requirement("P6")
@pytest.mark.parametrize("reads", [True, False])
async def test_the_last_quarter_of_a_limit_is_not_held_ahead(
    probe: StoreProbe, reads: bool
) -> None:
    await probe.accept(*(probe.request(turn=LIMIT + "a") for _ in range(40)))
    worker = Claimer(probe, await probe.worker(), TargetLimits(in_flight=8))
    assert len(await worker.claim(1)) == 1
    if reads:
        worker.last = None
    assert len(await worker.claim(20, early=20)) == 5
    assert await worker.claim(20, early=20) == []
    assert worker.last is not None
    assert (worker.last.is_full, worker.last.again_at) == (True, None)
    assert len(await worker.claim(20, early=19)) == 1
    assert len(await worker.claim(20)) == 1
    assert await worker.claim(20) == []


SLOW = """
alter table duly.workers rename to real_workers;
create function duly.waits() returns boolean language sql volatile as
    'select pg_advisory_lock_shared(77) is not null';
create view duly.workers as select * from duly.real_workers where duly.waits()
"""
QUICK = """
drop view duly.workers; drop function duly.waits();
alter table duly.real_workers rename to workers
"""


@pytest.mark.requirement("P6")
async def test_a_claim_never_counts_without_one_that_ended_since_it_began(
    emptied_postgres_url: str, clock: VirtualClock
) -> None:
    """A statement sees the lanes as they were when it began, but a locked row as it is."""
    probe = await open_probe(emptied_postgres_url, clock)
    other = await asyncpg.connect(emptied_postgres_url)
    await probe.accept(*(probe.request(turn=LIMIT + "a") for _ in range(9)))
    worker = Claimer(probe, await probe.worker(), TargetLimits(in_flight=3))
    assert len(await worker.claim(1)) == 1
    await other.execute(SLOW)
    try:
        await other.execute("select pg_advisory_lock(77)")
        claiming = asyncio.create_task(worker.claim(9))
        waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        async with asyncio.timeout(30):
            while not await other.fetchval(waits):
                pass
        await other.execute(CLAIM_TWO)
        await other.execute("select pg_advisory_unlock(77)")
        assert await claiming == []
    finally:
        await other.execute(QUICK)
        await other.close()
        await probe.store.close()


CLAIM_TWO = """
with two as (
    update duly.agenda set token = 7 where lane in (
        select lane from duly.agenda where token is null limit 2)
    returning lane
)
update duly.limit_keys
set version = version + 1, lanes = lanes || (select array_agg(lane) from two)
"""


@pytest.mark.requirement("P6")
@pytest.mark.parametrize("limits", [TargetLimits(in_flight=2), TargetLimits(rate=2)])
async def test_a_limit_holds_for_a_key_in_several_priorities(
    probe: StoreProbe, limits: TargetLimits
) -> None:
    priorities = (9, 5, 1)
    await probe.accept(
        *(probe.request(turn=LIMIT + "a", priority=each) for each in priorities for _ in range(5)),
        *(probe.request(turn=LIMIT + "b", priority=1) for _ in range(5)),
    )
    target, worker = await probe.target(), await probe.worker()
    asks = [
        ClaimRequest(priority, target, LONG_AGO, 9, True, "", limits) for priority in priorities
    ]
    found = await probe.store.turns.claim(token(worker, 1), 27, asks)
    allowed = limits.in_flight or 1
    assert keys(found.claimed) == {"a": allowed, "b": allowed}
    assert {each.priority for each in found.claimed if each.turn == LIMIT + "a"} == {9}
    assert found.rounds[1].again_at is not None


@pytest.mark.requirement("P10")
async def test_keys_that_were_read_ahead_have_their_turn_without_being_read_again(
    probe: StoreProbe,
) -> None:
    await keyed(probe, a=3, b=3, d=3)
    worker = Claimer(probe, await probe.worker())
    assert keys(await worker.claim(1)) == {"a": 1}
    await keyed(probe, c=1)
    assert [keys(await worker.claim(1)) for _ in range(5)] == [{key: 1} for key in "bdabd"]
    worker.last = None  # what was read is too old
    assert [keys(await worker.claim(1)) for _ in "abcd"] == [{key: 1} for key in "abcd"]


@pytest.mark.requirement("P6")
async def test_a_limit_key_has_several_turns_until_its_limit_holds_it_back(
    probe: StoreProbe,
) -> None:
    await probe.accept(*(probe.request(turn=LIMIT + key) for key in "ab" for _ in range(9)))
    worker = Claimer(probe, await probe.worker(), TargetLimits(in_flight=3))
    found = [keys(await worker.claim(1)) for _ in range(6)]
    assert found == [{key: 1} for key in "ababab"]
    assert await worker.claim(1) == []
    await worker.finish(worker.held[0])
    assert keys(await worker.claim(1)) == {"a": 1}


class Model:
    """What was delivered, started and ended, by id, beside a store that is used at random."""

    def __init__(self, probe: StoreProbe, chance: random.Random, limits: TargetLimits) -> None:
        self.probe = probe
        self.chance = chance
        self.limits = limits
        self.waiting: dict[str, str] = {}
        self.held: dict[str, str] = {}
        self.starts: dict[str, list[datetime]] = {}
        self.claimers: list[Claimer] = []

    async def deliver(self) -> None:
        requests = [
            self.probe.request(
                turn=self.chance.choice((FAIR, LIMIT)) + f"key-{self.chance.randrange(4)}",
                priority=self.chance.choice((5, 7)),
                after=self.chance.choice((None, None, 3.0)),
            )
            for _ in range(self.chance.randrange(1, 6))
        ]
        await self.probe.accept(*requests)
        self.waiting |= {each.id: each.turn or "" for each in requests}

    async def claim(self) -> None:
        claimer = self.chance.choice(self.claimers)
        claimer.after = self.chance.choice(("", claimer.after))
        for each in await claimer.claim(self.chance.randrange(1, 9), self.chance.choice((5, 7))):
            turn = self.waiting.pop(each.id)
            self.held[each.id] = turn
            self.starts.setdefault(turn, []).append(self.probe.clock.now())
        self.check()

    async def end(self) -> None:
        claimer = self.chance.choice(self.claimers)
        if not claimer.held:
            return
        claimed = self.chance.choice(claimer.held)
        verdict = self.chance.choice((Verdict.COMPLETED, Verdict.RELEASED, Verdict.RETRY))
        await claimer.finish(claimed, verdict)
        turn = self.held.pop(claimed.id)
        if verdict is not Verdict.COMPLETED:
            self.waiting[claimed.id] = turn

    async def die(self) -> None:
        """A worker is declared dead; what it held is released when another reclaims it."""
        claimer = self.chance.choice(self.claimers)
        await self.probe.sql(
            "update duly.workers set ended_at = started_at, ended_how = 'died'"
            f" where id = {claimer.worker}"
        )
        for each in await self.probe.store.agenda.held_by_dead(99):
            assert each.target == await self.probe.target()
            await self.probe.settle(settlement(each, Verdict.RECLAIMED, self.probe.clock.now()))
            self.waiting[each.id] = self.held.pop(each.id)
        self.claimers.remove(claimer)
        await self.start_worker()

    async def start_worker(self) -> None:
        worker = await self.probe.worker(f"host:{self.chance.random()}")
        self.claimers.append(Claimer(self.probe, worker, self.limits))

    async def wait(self) -> None:
        self.probe.clock.advance(self.chance.choice((0.05, 0.3, 2.0)))

    def check(self) -> None:
        in_flight = Counter(turn for turn in self.held.values() if turn.startswith(LIMIT))
        assert self.limits.in_flight is not None
        assert max(in_flight.values(), default=0) <= self.limits.in_flight
        assert self.limits.rate is not None
        for turn, moments in self.starts.items():
            if turn.startswith(LIMIT):
                for back in range(1, len(moments) + 1):
                    lasted = (moments[-1] - moments[-back]).total_seconds()
                    assert back <= lasted * self.limits.rate + 1.2 + self.limits.rate * 0.1


@pytest.mark.requirement("P6")
@pytest.mark.requirement("P10")
@pytest.mark.parametrize("seed", range(4))
async def test_nothing_is_lost_and_no_limit_exceeded_at_random(
    probe: StoreProbe, seed: int
) -> None:
    chance = random.Random(seed)
    model = Model(probe, chance, TargetLimits(rate=8, in_flight=2))
    for _ in range(3):
        await model.start_worker()
    steps = [model.deliver, model.claim, model.claim, model.claim, model.end, model.end, model.wait]
    for _ in range(150):
        await chance.choice(steps if chance.random() < 0.95 else [model.die])()
    await drain(model)
    assert model.waiting == model.held == {}
    assert await probe.count("agenda") == 0


async def drain(model: Model) -> None:
    for _ in range(2000):
        if not model.waiting and not model.held:
            return
        for claimer in model.claimers:
            claimer.after = ""
            for each in list(claimer.held):
                await claimer.finish(each)
                del model.held[each.id]
        await model.claim()
        model.probe.clock.advance(1.0)


@pytest.mark.requirement("P10")
async def test_what_leaves_the_agenda_comes_back_with_its_key(probe: StoreProbe) -> None:
    await keyed(probe, one=1)
    worker = Claimer(probe, await probe.worker())
    (claimed,) = await worker.claim(9)
    await worker.finish(claimed, Verdict.DEAD)
    await probe.store.deliveries.retry(claimed.id)
    (again,) = await worker.claim(9)
    assert (again.id, again.turn) == (claimed.id, FAIR + "one")
    assert again.due_at >= START


@pytest.mark.requirement("P6")
async def test_maintenance_removes_keys_that_are_not_used(probe: StoreProbe) -> None:
    await probe.accept(*(probe.request(turn=LIMIT + key) for key in ("ended", "held", "waits")))
    worker = Claimer(probe, await probe.worker(), TargetLimits(rate=1, in_flight=1))
    claimed = {each.turn: each for each in await worker.claim(9)}
    await worker.finish(claimed[LIMIT + "ended"])
    await worker.finish(claimed[LIMIT + "waits"], Verdict.RETRY)
    rows = "select turn from duly.limit_keys order by turn"
    for passed, left in ((0.5, ["ended", "held", "waits"]), (2100.0, ["held", "waits"])):
        probe.clock.advance(passed)
        await probe.store.maintenance.prune(timedelta(days=9), timedelta(days=9), number_id(0), 50)
        assert [row["turn"] for row in await probe.sql(rows)] == [LIMIT + key for key in left]
