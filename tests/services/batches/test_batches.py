"""Batches: one completion, when all members have ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import Conflict, InvalidInput, NotFound
from duly.records.batch import BatchState
from duly.records.state import State
from duly.testing import VirtualClock, run_until_idle
from tests.services.work import Work

pytestmark = pytest.mark.requirement("P8")
THEN = ("ready", {"month": 11})
NOWHERE = "01a1dfd1-5f0e-7c4b-9d5e-1f0c2a3b4c5d"


class Completions:
    """The handler `ready`, which records what it gets."""

    def __init__(self, work: Work) -> None:
        self.seen: list[Any] = []
        work.app.handler("ready")(self._handle)

    async def _handle(self, delivery: duly.Delivery[Any]) -> None:
        self.seen.append(delivery.payload)

    def counts(self) -> list[tuple[int, int, int, int]]:
        """Members, completed, dead and cancelled ones of each completion."""
        names = ("members", "completed", "dead", "cancelled")
        return [tuple(each["batch"][name] for name in names) for each in self.seen]


@pytest.fixture
def completions(work: Work) -> Completions:
    return Completions(work)


async def test_one_completion_when_all_members_have_ended(
    work: Work, completions: Completions, clock: VirtualClock
) -> None:
    app, opened_at = work.app, clock.now()
    work.dies("b")
    async with app.batch(then=THEN, name="november") as batch:
        await batch.deliver("work", "a")
        clock.advance(1)
        await batch.deliver("work", "b")
        later = await batch.deliver("work", "later", after=60)
        await batch.deliver_many([("work", "c"), {"target": "work", "payload": "d", "key": "d"}])
        await app.deliver("work", "e", batch=batch.id)
        await app.batches.deliver(batch.id, "work", "f", stream="s")
        assert (await batch.get()).state == "open"
    await run_until_idle(app)
    found = await app.batches.get(batch.id)
    assert (found.state, found.name, found.then) == ("closed", "november", "ready")
    assert (found.members, found.waiting, found.completed, found.dead) == (7, 1, 5, 1)
    assert completions.seen == []
    await app.cancel(later.id)
    await run_until_idle(app)
    found = await app.batches.get(batch.id)
    assert found.state == "finished"
    assert completions.seen == [
        {
            "month": 11,
            "batch": {
                "id": batch.id,
                "name": "november",
                "members": 7,
                "completed": 5,
                "dead": 1,
                "cancelled": 1,
                "opened_at": opened_at.isoformat().replace("+00:00", "Z"),
                "closed_at": clock.now().isoformat().replace("+00:00", "Z"),
                "finished_at": clock.now().isoformat().replace("+00:00", "Z"),
            },
        }
    ]
    completion = await app.get(found.completion or "")
    assert (completion.target, completion.state, completion.batch) == ("ready", "completed", None)
    assert await run_until_idle(app, within=3600) == 0


async def test_nothing_is_sent_while_it_is_open(work: Work, completions: Completions) -> None:
    batch = await work.app.batches.open(THEN)
    await work.app.batches.deliver(batch.id, "work", 1)
    await run_until_idle(work.app)
    assert completions.seen == []
    assert (await work.app.batches.get(batch.id)).completed == 1
    await work.app.batches.close(batch.id)
    await work.app.batches.close(batch.id)
    await run_until_idle(work.app)
    assert completions.counts() == [(1, 1, 0, 0)]


async def test_a_batch_without_members_finishes_at_once(
    work: Work, completions: Completions
) -> None:
    async with work.app.batch(then="ready"):
        pass
    await run_until_idle(work.app)
    assert completions.counts() == [(0, 0, 0, 0)]
    assert list(completions.seen[0]) == ["batch"]


async def test_a_block_that_raises_leaves_it_open(work: Work, completions: Completions) -> None:
    async def fill() -> None:
        async with work.app.batch(then=THEN) as batch:
            await batch.deliver("work", 1)
            raise RuntimeError("half")

    with pytest.raises(RuntimeError) as raised:
        await fill()
    (batch,) = await work.app.batches.list()
    assert raised.value.__notes__ == [
        f"batch {batch.id} is still open; close or cancel it by its id"
    ]
    await run_until_idle(work.app)
    assert (await work.app.batches.get(batch.id)).state == "open"
    assert completions.seen == []
    await work.app.batches.close(batch.id)
    await run_until_idle(work.app)
    assert completions.counts() == [(1, 1, 0, 0)]


async def test_members_behind_the_head_of_a_stream_count(
    work: Work, completions: Completions
) -> None:
    work.dies("a")
    async with work.app.batch(then=THEN) as batch:
        await batch.deliver_many(
            [{"target": "work", "payload": each, "stream": "s"} for each in "abc"]
        )
    await run_until_idle(work.app)
    found = await work.app.batches.get(batch.id)
    assert (found.waiting, found.dead, found.state) == (2, 1, "closed")
    await work.app.streams.release("s")
    await run_until_idle(work.app)
    assert completions.counts() == [(3, 2, 1, 0)]


async def test_a_dead_letter_that_is_retried_before_the_end_counts_as_it_ends(
    work: Work, completions: Completions
) -> None:
    work.dies("a")
    async with work.app.batch(then=THEN) as batch:
        dead = await batch.deliver("work", "a")
        slow = await batch.deliver("work", "b", after=60)
    await run_until_idle(work.app)
    await work.app.retry(dead.id)
    await work.app.cancel(slow.id)
    assert (await work.app.batches.get(batch.id)).state == "closed"
    await run_until_idle(work.app)
    assert completions.counts() == [(2, 1, 0, 1)]


async def test_a_dead_letter_that_is_retried_after_the_end_changes_nothing(
    work: Work, completions: Completions
) -> None:
    work.dies("a")
    async with work.app.batch(then=THEN) as batch:
        dead = await batch.deliver("work", "a")
    await run_until_idle(work.app)
    await work.app.retry(dead.id)
    await run_until_idle(work.app)
    assert await work.states(dead.id) == ["completed"]
    found = await work.app.batches.get(batch.id)
    assert (found.state, found.dead, found.completed) == ("finished", 1, 0)
    assert completions.counts() == [(1, 0, 1, 0)]


async def test_a_cancelled_batch_cancels_what_waits_and_sends_nothing(
    work: Work, completions: Completions
) -> None:
    work.fails("b")
    async with work.app.batch(then=THEN) as batch:
        done = await batch.deliver("work", "a")
        failed = await batch.deliver("work", "b")
        later = await batch.deliver("work", "c", after=60)
    await run_until_idle(work.app)
    assert await work.states(done.id, failed.id, later.id) == ["completed", "pending", "pending"]
    cancelled = await work.app.batches.cancel(batch.id)
    assert (cancelled.state, cancelled.cancelled, cancelled.waiting) == ("cancelled", 2, 0)
    await run_until_idle(work.app, within=3600)
    found = await work.app.batches.cancel(batch.id)
    assert (found.state, found.completed, found.cancelled) == ("cancelled", 1, 2)
    assert found.finished_at is not None
    assert (found.completion, completions.seen) == (None, [])


async def test_what_a_cancelled_batch_left_waiting_the_workers_cancel(
    work: Work, completions: Completions
) -> None:
    async with work.app.batch(then=THEN) as batch:
        later = await batch.deliver("work", "c", after=60)
    # The process that cancels it dies before it reaches the members.
    await work.app.store.batches.cancel(batch.id, None)
    assert await work.states(later.id) == ["pending"]
    await run_until_idle(work.app)
    assert await work.states(later.id) == ["cancelled"]
    assert completions.seen == []


async def test_a_closed_batch_takes_no_members(work: Work, completions: Completions) -> None:
    app = work.app
    async with app.batch(then=THEN) as batch:
        known = await batch.deliver("work", 1, key="k")
    for refused in (
        lambda: app.deliver("work", 2, batch=batch.id),
        lambda: app.deliver("work", 2, batch=batch.id, key="other"),
        lambda: app.deliver("work", 2, batch=batch.id, stream="s"),
        lambda: app.deliver_many([("work", 2), ("work", 3)], batch=batch.id),
        lambda: app.deliver_many([{"target": "work", "batch": batch.id, "key": "q"}]),
        lambda: batch.deliver("work", 2),
    ):
        with pytest.raises(Conflict, match="closed"):
            await refused()
    async with app.transaction() as tx:
        with pytest.raises(Conflict, match="closed"):
            await app.deliver("work", 2, batch=batch.id, connection=tx)
    # A repetition is no new member.
    assert (await app.deliver("work", 1, batch=batch.id, key="k")).id == known.id
    answers = await app.deliver_each([{"target": "work", "batch": batch.id}, ("work", 5)])
    assert [type(each).__name__ for each in answers] == ["Conflict", "Accepted"]
    assert (await app.batches.get(batch.id)).members == 1


async def test_a_known_key_outside_the_batch_is_refused(
    work: Work, completions: Completions
) -> None:
    await work.app.deliver("work", 1, key="k")
    batch = await work.app.batches.open(THEN)
    with pytest.raises(Conflict, match="not in batch"):
        await work.app.deliver("work", 1, key="k", batch=batch.id)


async def test_unknown_batches_are_refused(work: Work, completions: Completions) -> None:
    app = work.app
    elsewhere = app.within("elsewhere")
    elsewhere.expect("work", "ready")
    foreign = (await elsewhere.batches.open(THEN)).id
    for id in (NOWHERE, foreign):
        for refused in (
            lambda id=id: app.deliver("work", 2, batch=id),
            lambda id=id: app.deliver_many([("work", 2)], batch=id),
            lambda id=id: app.batches.get(id),
            lambda id=id: app.batches.close(id),
            lambda id=id: app.batches.cancel(id),
        ):
            with pytest.raises(NotFound, match="no batch"):
                await refused()
    assert not await app.list()


@pytest.mark.parametrize(
    ("then", "field"),
    [
        (None, "then"),
        ((), "then"),
        ({}, "then"),
        ({"payload": {}}, "then"),
        ("nobody", "target"),
        (("ready", [1, 2]), "then"),
        (("ready", "text"), "then"),
        (("ready", {"batch": 1}), "then"),
        (("ready", {"much": "x" * 262_000}), "then"),
        ({"target": "ready", "batch": NOWHERE}, "then"),
        ({"target": "ready", "id": NOWHERE}, "then"),
        ({"target": "ready", "priority": 10}, "priority"),
        ({"target": "ready", "unheard": 1}, "then"),
    ],
)
async def test_a_bad_then_is_refused(
    work: Work, completions: Completions, then: Any, field: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        await work.app.batches.open(then)
    assert raised.value.field == field
    assert await work.app.batches.list() == []


async def test_then_may_have_options_and_any_target(work: Work, completions: Completions) -> None:
    app = work.app
    await app.endpoints.add("hook", "https://example.org/hook")
    hook = duly.webhook("https://example.org/x", headers={"authorization": "secret"})
    options = {"key": "done", "priority": 9, "tags": ["t"], "retry": duly.no_retry}
    for then in (
        {"target": hook, "payload": {"n": 1}, **options},
        {"target": duly.endpoint("hook"), "after": 60},
    ):
        async with app.batch(then=then):
            pass
    await app.engine(stepped=True).worker.batch_finisher.catch_up()
    second, first = await app.list()
    assert (first.target, first.url) == ("https://example.org", "https://example.org/x")
    assert (first.key, first.priority, first.tags) == ("done", 9, ["t"])
    assert (second.target, second.due_at) == (
        "endpoint:hook",
        second.accepted_at + timedelta(minutes=1),
    )


async def test_a_completion_whose_key_is_taken_is_not_sent(
    work: Work, completions: Completions
) -> None:
    then = {"target": "ready", "key": "november"}
    for _ in range(2):
        async with work.app.batch(then=then):
            pass
        await run_until_idle(work.app)
    second, first = await work.app.batches.list()
    assert (first.completion is None, first.problem) == (False, None)
    assert (second.state, second.completion) == ("finished", None)
    assert "november" in (second.problem or "")
    assert len(completions.seen) == 1


async def test_batches_are_listed_by_state(work: Work, completions: Completions) -> None:
    app = work.app
    done, cancelled, closed, opened = [
        (await app.batches.open(THEN, name=name)).id for name in ("d", "x", "c", "o")
    ]
    await app.batches.close(done)
    await app.batches.cancel(cancelled)
    await app.deliver("work", 1, batch=closed, after=60)
    await app.batches.close(closed)
    await run_until_idle(app)
    for state, id in (
        (BatchState.OPEN, opened),
        ("closed", closed),
        ("finished", done),
        ("cancelled", cancelled),
    ):
        assert [each.id for each in await app.batches.list(state)] == [id]
    assert [each.name for each in await app.batches.list(limit=3)] == ["o", "c", "x"]
    assert [each.name for each in await app.batches.list(before=cancelled)] == ["d"]
    with pytest.raises(InvalidInput, match="state"):
        await app.batches.list("ended")


async def test_members_are_listed_by_their_batch(work: Work, completions: Completions) -> None:
    async with work.app.batch(then=THEN) as batch:
        given = await batch.deliver_many([("work", each) for each in range(5)])
    await work.app.deliver("work", 9)
    found = await work.app.list(batch=batch.id)
    assert [each.id for each in found] == [each.id for each in given][::-1]
    assert {each.batch for each in found} == {batch.id}
    page = await work.app.page(batch=batch.id, limit=2, before=given[3].id)
    assert [each.id for each in page.items] == [given[2].id, given[1].id]
    assert (await work.app.deliveries.counts(batch=batch.id)).states[State.PENDING] == 5
    assert await work.app.deliveries.count(batch=batch.id) == 5
