"""kill -9 around webhooks: repeated with the same id and body, in time, and never concurrently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.records.retry_plan import RetryPlan
from tests.crash.fleet import Fleet, Process, StoreUnderTest
from tests.crash.receiver import Receiver
from tests.crash.test_kill import workers_for

pytestmark = pytest.mark.long

HERE = "127.0.0.1/32"
BODY = b'{ "spaced" : [1.0] }'
SECOND = timedelta(seconds=1)
PLAN = (30, 120, 600)
"""The waits of the default plan, in seconds."""


@pytest.fixture
def receiver(fleet: Fleet) -> Iterator[Receiver]:
    """A receiver that outlives the workers."""
    receiver = Receiver()
    yield receiver
    fleet.close()
    receiver.close()


def start(fleet: Fleet, failpoints: str = "", **environment: str) -> Process:
    return fleet.start(DULY_EGRESS_ALLOW=HERE, DULY_FAILPOINTS=failpoints, **environment)


def die(fleet: Fleet, failpoints: str) -> None:
    """Start one more process, which kills itself at the failpoint."""
    assert start(fleet, failpoints).popen.wait(30) == -9, f"{failpoints} was never reached"


def kill(process: Process) -> None:
    process.kill()
    process.popen.wait(10)


async def deliver(
    store: StoreUnderTest, receiver: Receiver, plan: RetryPlan | None = None, body: bytes = BODY
) -> str:
    async with duly.App(store.database, egress_allow=HERE, environment={}) as app:
        return (await app.deliver(duly.webhook(receiver.url), body, retry=plan)).id


async def read(store: StoreUnderTest, id: str) -> tuple[Any, Sequence[Any]]:
    """The delivery and its history; on SQLite after all processes have ended."""
    async with duly.App(store.database, environment={}) as app:
        return await app.get(id), await app.deliveries.history(id)


async def end_of(fleet: Fleet, store: StoreUnderTest, id: str) -> tuple[str, int, list[str]]:
    """Wait until all is done; returns the delivery's state, attempts and outcomes."""
    await store.until_finished()
    fleet.close()
    delivery, history = await read(store, id)
    assert (await store.run("select count(*) from duly.agenda"))[0][0] == 0
    return str(delivery.state), delivery.attempt, [str(each.outcome) for each in history]


@pytest.mark.requirement("C5", "D4", "D9")
@pytest.mark.parametrize("place", ["webhook.before", "webhook.answered", "settle.before"])
async def test_a_request_interrupted_by_a_crash_is_repeated_unchanged(
    fleet: Fleet, store: StoreUnderTest, receiver: Receiver, place: str
) -> None:
    id = await deliver(store, receiver, duly.delays(0, 1, 1))
    die(fleet, f"{place}=kill@1")
    assert receiver.attempts() == ({} if place == "webhook.before" else {id: [1]})
    start(fleet)
    assert await end_of(fleet, store, id) == ("completed", 1, ["reclaimed", "completed"])
    assert receiver.attempts() == {id: [1] if place == "webhook.before" else [1, 1]}
    receiver.assert_only_repeats({id: BODY})


@pytest.mark.requirement("C5", "D4")
async def test_a_settled_request_is_not_repeated_after_a_crash(
    fleet: Fleet, store: StoreUnderTest, receiver: Receiver
) -> None:
    id = await deliver(store, receiver)
    die(fleet, "settle.after=kill@1")
    await store.deliver("touch", 1)
    start(fleet)
    fleet.wait_for("touch")
    assert await end_of(fleet, store, id) == ("completed", 1, ["completed"])
    assert receiver.attempts() == {id: [1]}


@pytest.mark.requirement("C5", "D4", "D6", "D9")
async def test_kills_during_requests_never_cause_concurrent_requests(
    fleet: Fleet, store: StoreUnderTest, receiver: Receiver
) -> None:
    bodies = [b"[ %d ]" % each for each in range(9)]
    ids = [await deliver(store, receiver, duly.no_retry, each) for each in bodies]
    receiver.status = None
    # Two each: one origin may use half of a worker's slots.
    slow = {"DULY_CONCURRENCY": "4", "DULY_LEASE": "3"}
    workers = [start(fleet, **slow) for _ in range(workers_for(store))]
    # One delivery must not have two kills: it would be a suspect and run alone.
    kills = 2 if store.postgres else 1
    for _ in range(kills):
        receiver.wait_for(held=2 * len(workers))
        kill(workers.pop(0))
        # On PostgreSQL the other workers keep theirs while those of the dead one are reclaimed.
        receiver.wait_for(held=2 * len(workers))
        workers.append(start(fleet, **slow))
    receiver.wait_for(held=2 * len(workers))
    receiver.status = 204
    await end_of(fleet, store, ids[0])
    attempts = receiver.attempts()
    assert sorted(attempts) == sorted(ids)
    assert {number for numbers in attempts.values() for number in numbers} == {1}
    assert len(receiver.received) == len(ids) + 2 * kills, "each killed worker had sent two"
    receiver.assert_only_repeats(dict(zip(ids, bodies, strict=True)))
    rows = await store.run("select state, attempt from duly.deliveries")
    assert set(rows) == {("completed", 1)}


@pytest.mark.requirement("C5", "D4", "F2")
async def test_after_a_kill_the_next_attempt_is_made_at_its_planned_time(
    fleet: Fleet, store: StoreUnderTest, receiver: Receiver
) -> None:
    id = await deliver(store, receiver, duly.delays(3))
    receiver.status = 503
    worker = start(fleet)
    await store.until("select attempt from duly.deliveries", 1)
    kill(worker)
    delivery, history = await read(store, id)
    assert delivery.next_at >= history[-1].finished_at + 3 * SECOND
    receiver.status = 204
    start(fleet)
    assert await end_of(fleet, store, id) == ("completed", 2, ["retry", "completed"])
    assert receiver.attempts() == {id: [1, 2]}
    assert receiver.received[1].arrived_at >= delivery.next_at
    receiver.assert_only_repeats({id: BODY})


@pytest.mark.requirement("C5", "F2", "F3")
async def test_the_default_plan_is_kept_through_a_kill_before_each_attempt(
    fleet: Fleet, store: StoreUnderTest, receiver: Receiver
) -> None:
    id = await deliver(store, receiver)
    receiver.status = 503
    for settled in (1, 2, 3):
        worker = start(fleet)
        await store.until("select attempt from duly.deliveries", settled)
        kill(worker)
        await advance_an_hour(store)
    start(fleet)
    assert await end_of(fleet, store, id) == ("dead", 4, [*["retry"] * 3, "dead"])
    _, history = await read(store, id)
    waits = [(each.next_at - each.finished_at) / SECOND for each in history[:-1]]
    # The store counts from when it writes the outcome, which is later on a busy machine.
    assert all(plan - 1 < wait < 2 * plan for plan, wait in zip(PLAN, waits, strict=True)), waits
    await store.deliver("touch", 1)
    start(fleet)
    fleet.wait_for("touch")
    assert receiver.attempts() == {id: [1, 2, 3, 4]}
    receiver.assert_only_repeats({id: BODY})


async def advance_an_hour(store: StoreUnderTest) -> None:
    """Make every waiting delivery due an hour earlier."""
    hour = "interval '1 hour'" if store.postgres else "3600000000"
    await store.run(f"update duly.agenda set due_at = due_at - {hour}")


@pytest.mark.requirement("C5", "D4", "F2")
async def test_crashes_at_every_step_add_no_attempt(
    fleet: Fleet, store: StoreUnderTest, receiver: Receiver
) -> None:
    id = await deliver(store, receiver, duly.delays(0, 1, 1))
    receiver.status = 503
    # Reclaiming the previous worker's delivery is a settlement too; the second is the webhook's.
    places = ("webhook.answered=kill@1", "settle.after=kill@2")
    for place in (*places, "webhook.answered=kill@1", "settle.before=kill@2"):
        die(fleet, place)
    start(fleet)
    outcomes = ["reclaimed", "retry", "reclaimed", "reclaimed", "retry", "retry", "dead"]
    assert await end_of(fleet, store, id) == ("dead", 4, outcomes)
    assert receiver.attempts() == {id: [1, 1, 2, 2, 2, 3, 4]}
    receiver.assert_only_repeats({id: BODY})
    _, history = await read(store, id)
    ends = [each.finished_at for each in history if each.outcome == "retry"]
    first = [receiver.attempts()[id].index(number) for number in (2, 3, 4)]
    waits = [receiver.received[at].arrived_at - end for at, end in zip(first, ends, strict=True)]
    assert all(wait >= least * SECOND for wait, least in zip(waits, (0, 1, 1), strict=True))


@pytest.mark.requirement("C5", "F3")
async def test_only_a_crash_while_running_alone_spends_an_attempt(
    fleet: Fleet, store: StoreUnderTest, receiver: Receiver
) -> None:
    id = await deliver(store, receiver, duly.delays(0, 0))
    for _ in range(3):
        die(fleet, "webhook.answered=kill@1")
    start(fleet)
    outcomes = ["reclaimed", "reclaimed", "retry", "completed"]
    assert await end_of(fleet, store, id) == ("completed", 2, outcomes)
    assert receiver.attempts() == {id: [1, 1, 1, 2]}
    receiver.assert_only_repeats({id: BODY})
