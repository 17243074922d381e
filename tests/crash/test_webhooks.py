"""kill -9 around webhooks: the same id and bytes go out again, in time, and never two at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly.records.retry_plan import RetryPlan
from tests.crash.fleet import Books, Fleet, Process
from tests.crash.receiver import Receiver
from tests.crash.test_kill import workers_for

pytestmark = pytest.mark.long

HERE = "127.0.0.1/32"
BODY = b'{ "spaced" : [1.0] }'
SECOND = timedelta(seconds=1)


@pytest.fixture
def there(fleet: Fleet) -> Iterator[Receiver]:
    """A receiver that outlives the workers."""
    receiver = Receiver()
    yield receiver
    fleet.close()
    receiver.close()


def start(fleet: Fleet, failpoints: str = "", **environment: str) -> Process:
    return fleet.start(DULY_EGRESS_ALLOW=HERE, DULY_FAILPOINTS=failpoints, **environment)


def die(fleet: Fleet, failpoints: str) -> None:
    """One more process, which kills itself at the place."""
    assert start(fleet, failpoints).popen.wait(30) == -9, f"{failpoints} was never reached"


def kill(process: Process) -> None:
    process.kill()
    process.popen.wait(10)


async def deliver(
    books: Books, there: Receiver, plan: RetryPlan | None = None, body: bytes = BODY
) -> str:
    async with duly.App(books.database, egress_allow=HERE, environment={}) as app:
        return (await app.deliver(duly.webhook(there.url), body, retry=plan)).id


async def told(books: Books, id: str) -> tuple[Any, Sequence[Any]]:
    """The delivery and its history; an SQLite file has one process at a time, so after all."""
    async with duly.App(books.database, environment={}) as app:
        return await app.get(id), await app.deliveries.history(id)


async def end_of(fleet: Fleet, books: Books, id: str) -> tuple[str, int, list[str]]:
    """Wait until all is done: the delivery's state, its attempts, and the moves of its history."""
    await books.until_finished()
    fleet.close()
    delivery, history = await told(books, id)
    assert (await books.run("select count(*) from duly.agenda"))[0][0] == 0
    return str(delivery.state), delivery.attempt, [str(each.outcome) for each in history]


@pytest.mark.requirement("C5", "D4", "D9")
@pytest.mark.parametrize(
    "place", ["webhook.before", "webhook.sent", "webhook.answered", "settle.before"]
)
async def test_what_a_crash_cut_off_goes_out_again_as_it_was(
    fleet: Fleet, books: Books, there: Receiver, place: str
) -> None:
    id = await deliver(books, there, duly.delays(0, 1, 1))
    die(fleet, f"{place}=kill@1")
    assert there.attempts() == ({} if place == "webhook.before" else {id: [1]})
    start(fleet)
    assert await end_of(fleet, books, id) == ("completed", 1, ["reclaimed", "completed"])
    assert there.attempts() == {id: [1] if place == "webhook.before" else [1, 1]}
    there.assert_only_repeats({id: BODY})


@pytest.mark.requirement("C5", "D4")
async def test_what_was_settled_before_the_crash_does_not_go_out_again(
    fleet: Fleet, books: Books, there: Receiver
) -> None:
    id = await deliver(books, there)
    die(fleet, "settle.after=kill@1")
    await books.deliver("touch", 1)
    start(fleet)
    fleet.wait_for("touch")
    assert await end_of(fleet, books, id) == ("completed", 1, ["completed"])
    assert there.attempts() == {id: [1]}


@pytest.mark.requirement("C5", "D4", "D6", "D9")
async def test_workers_killed_while_they_wait_for_answers_never_make_two_meet(
    fleet: Fleet, books: Books, there: Receiver
) -> None:
    bodies = [b"[ %d ]" % each for each in range(9)]
    ids = [await deliver(books, there, duly.no_retry, each) for each in bodies]
    there.status = None
    # Two each: one origin may take half of a worker's slots.
    slow = {"DULY_CONCURRENCY": "4", "DULY_LEASE": "3"}
    workers = [start(fleet, **slow) for _ in range(workers_for(books))]
    # One delivery must not see two kills: it would run alone then, and no second beside it.
    kills = 2 if books.postgres else 1
    for _ in range(kills):
        there.wait_for(held=2 * len(workers))
        kill(workers.pop(0))
        # On PostgreSQL the others hold on to theirs while what the dead one held is taken back.
        there.wait_for(held=2 * len(workers))
        workers.append(start(fleet, **slow))
    there.wait_for(held=2 * len(workers))
    there.status = 204
    await end_of(fleet, books, ids[0])
    attempts = there.attempts()
    assert sorted(attempts) == sorted(ids)
    assert {number for numbers in attempts.values() for number in numbers} == {1}
    assert len(there.taken) == len(ids) + 2 * kills, "each of the killed had sent two"
    there.assert_only_repeats(dict(zip(ids, bodies, strict=True)))
    rows = await books.run("select state, attempt from duly.deliveries")
    assert set(rows) == {("completed", 1)}


@pytest.mark.requirement("C5", "D4", "F2")
async def test_killed_while_it_waits_the_next_attempt_comes_when_it_was_planned(
    fleet: Fleet, books: Books, there: Receiver
) -> None:
    id = await deliver(books, there, duly.delays(3))
    there.status = 503
    worker = start(fleet)
    await books.until("select attempt from duly.deliveries", 1)
    kill(worker)
    delivery, history = await told(books, id)
    assert delivery.next_at >= history[-1].finished_at + 3 * SECOND
    there.status = 204
    start(fleet)
    assert await end_of(fleet, books, id) == ("completed", 2, ["retry", "completed"])
    assert there.attempts() == {id: [1, 2]}
    assert there.taken[1].arrived_at >= delivery.next_at
    there.assert_only_repeats({id: BODY})


@pytest.mark.requirement("C5", "F2", "F3")
async def test_the_preset_is_kept_through_a_kill_before_each_of_its_attempts(
    fleet: Fleet, books: Books, there: Receiver
) -> None:
    id = await deliver(books, there)
    there.status = 503
    for settled in (1, 2, 3):
        worker = start(fleet)
        await books.until("select attempt from duly.deliveries", settled)
        kill(worker)
        await an_hour_passes(books)
    start(fleet)
    assert await end_of(fleet, books, id) == ("dead", 4, [*["retry"] * 3, "dead"])
    _, history = await told(books, id)
    waits = [(each.next_at - each.finished_at) / SECOND for each in history[:-1]]
    assert [round(each) for each in waits] == [30, 120, 600]
    await books.deliver("touch", 1)
    start(fleet)
    fleet.wait_for("touch")
    assert there.attempts() == {id: [1, 2, 3, 4]}
    there.assert_only_repeats({id: BODY})


async def an_hour_passes(books: Books) -> None:
    """Whatever waits is due an hour earlier."""
    hour = "interval '1 hour'" if books.postgres else "3600000000"
    await books.run(f"update duly.agenda set due_at = due_at - {hour}")


@pytest.mark.requirement("C5", "D4", "F2")
async def test_crashes_at_every_step_add_no_attempt_to_the_plan(
    fleet: Fleet, books: Books, there: Receiver
) -> None:
    id = await deliver(books, there, duly.delays(0, 1, 1))
    there.status = 503
    # Taking back what the one before held is a settlement too, so the second is the webhook's.
    places = ("webhook.sent=kill@1", "settle.after=kill@2")
    for place in (*places, "webhook.answered=kill@1", "settle.before=kill@2"):
        die(fleet, place)
    start(fleet)
    moves = ["reclaimed", "retry", "reclaimed", "reclaimed", "retry", "retry", "dead"]
    assert await end_of(fleet, books, id) == ("dead", 4, moves)
    assert there.attempts() == {id: [1, 1, 2, 2, 2, 3, 4]}
    there.assert_only_repeats({id: BODY})
    _, history = await told(books, id)
    ends = [each.finished_at for each in history if each.outcome == "retry"]
    first = [there.attempts()[id].index(number) for number in (2, 3, 4)]
    waits = [there.taken[at].arrived_at - end for at, end in zip(first, ends, strict=True)]
    assert all(wait >= least * SECOND for wait, least in zip(waits, (0, 1, 1), strict=True))


@pytest.mark.requirement("C5", "F3")
async def test_only_a_crash_that_it_had_alone_spends_an_attempt(
    fleet: Fleet, books: Books, there: Receiver
) -> None:
    id = await deliver(books, there, duly.delays(0, 0))
    for _ in range(3):
        die(fleet, "webhook.answered=kill@1")
    start(fleet)
    moves = ["reclaimed", "reclaimed", "retry", "completed"]
    assert await end_of(fleet, books, id) == ("completed", 2, moves)
    assert there.attempts() == {id: [1, 1, 1, 2]}
    there.assert_only_repeats({id: BODY})
