"""Operations on streams and their deliveries, in every state."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from duly import Conflict, InvalidInput, NotFound
from duly.testing import VirtualClock, run_until_idle
from tests.services.work import (
    NAME,
    Work,
    blocked,
    idle,
    paused,
    retrying,
    running,
    until_set,
    waiting,
)

pytestmark = pytest.mark.requirement("F7")
MINUTE = 60.0


class TestReading:
    async def test_a_blocked_stream_shows_its_head_since_when_and_how_many_wait(
        self, work: Work, clock: VirtualClock
    ) -> None:
        accepted_at = clock.now()
        ids = await blocked(work)
        blocked_at = clock.now()
        clock.advance(MINUTE)
        stream = await work.stream()
        assert (stream.state, stream.since, stream.waiting) == ("blocked", blocked_at, 2)
        assert stream.oldest_at == accepted_at
        assert stream.head is not None
        assert (stream.head.id, stream.head.state, stream.head.attempt) == (ids[0], "dead", 1)
        assert stream.head.reason == "validation_failure"
        assert "bad a" in (stream.head.error or "")
        assert stream.head.next_at is None
        assert f"duly streams retry-now {NAME}" in stream.to_do
        assert f"duly streams release {NAME}" in stream.to_do

    async def test_a_retrying_stream_shows_when_its_head_is_due(
        self, work: Work, clock: VirtualClock
    ) -> None:
        ids = await retrying(work)
        stream = await work.stream()
        assert (stream.state, stream.since, stream.waiting) == ("retrying", None, 2)
        assert stream.head is not None
        assert (stream.head.id, stream.head.attempt) == (ids[0], 1)
        assert stream.head.next_at == clock.now() + timedelta(minutes=1)

    async def test_an_idle_stream_has_no_head(self, work: Work) -> None:
        await idle(work)
        stream = await work.stream()
        assert (stream.state, stream.head, stream.waiting) == ("idle", None, 0)

    async def test_an_unknown_stream_is_not_found(self, work: Work) -> None:
        for operation in (work.app.streams.get, *OPERATIONS.values()):
            with pytest.raises(NotFound, match="no stream 'unknown'"):
                await (
                    operation(work, "unknown")
                    if operation in OPERATIONS.values()
                    else operation("unknown")
                )

    async def test_streams_are_listed_by_name_in_pages(self, work: Work) -> None:
        for name in ("c", "a", "d", "b"):
            await work.add(1, stream=name)
        first = await work.app.streams.list(limit=3)
        assert [each.name for each in first] == ["a", "b", "c"]
        assert [each.name for each in await work.app.streams.list(after="c")] == ["d"]

    async def test_blocked_and_paused_streams_can_be_listed(self, work: Work) -> None:
        await blocked(work)
        for name in ("x", "y"):
            await work.add("later", stream=name, after=MINUTE)
        await work.app.streams.pause("y", "holidays")
        for state, name in (("blocked", NAME), ("paused", "y")):
            assert [each.name for each in await work.app.streams.list(state)] == [name]
        assert await work.app.streams.list("blocked", after=NAME) == []
        assert len(await work.app.streams.list()) == 3
        with pytest.raises(InvalidInput, match="'idle' cannot be listed"):
            await work.app.streams.list("idle")


Operation = Callable[[Work, str], Awaitable[Any]]
OPERATIONS: dict[str, Operation] = {
    "retry_now": lambda work, name: work.app.streams.retry_now(name),
    "release": lambda work, name: work.app.streams.release(name),
    "dead_letter_head": lambda work, name: work.app.streams.dead_letter_head(name),
    "pause": lambda work, name: work.app.streams.pause(name),
    "resume": lambda work, name: work.app.streams.resume(name),
}
REFUSED = [
    (idle, "retry_now", "'team:7' is idle; only a head that waits or is dead"),
    (idle, "release", "'team:7' is idle; only a head that failed"),
    (idle, "dead_letter_head", "'team:7' is idle; only a head that waits"),
    (waiting, "release", "'team:7' is waiting; only a head that failed"),
    (blocked, "dead_letter_head", "its head is a dead letter already; .*streams release team:7"),
    (paused, "retry_now", "'team:7' is paused; .*streams resume team:7"),
    (paused, "release", "'team:7' is paused; .*streams resume team:7"),
]


@pytest.mark.parametrize(("state", "operation", "why"), REFUSED)
async def test_an_impossible_operation_is_refused(
    work: Work, state: Callable[[Work], Awaitable[list[str]]], operation: str, why: str
) -> None:
    ids = await state(work)
    before = await work.stream(), [await work.app.get(id) for id in ids]
    with pytest.raises(Conflict, match=why):
        await OPERATIONS[operation](work, NAME)
    assert (await work.stream(), [await work.app.get(id) for id in ids]) == before


async def test_a_running_stream_can_only_be_paused_or_its_head_cancelled(live: Work) -> None:
    proceed = live.waits("a")
    ids = await live.add("a", "b")
    async with running(live.app):
        await until_set(live.began["a"])
        for operation in ("retry_now", "release", "dead_letter_head"):
            with pytest.raises(Conflict, match="'team:7' is running"):
                await OPERATIONS[operation](live, NAME)
        with pytest.raises(Conflict, match=f"{ids[1]} is being run with its stream 'team:7'"):
            await live.app.cancel(ids[1])
        with pytest.raises(Conflict, match=f"{ids[0]} is processing; only a dead or waiting"):
            await live.app.retry(ids[0])
        with pytest.raises(Conflict, match=f"behind delivery {ids[0]} .processing"):
            await live.app.retry(ids[1])
        assert (await live.app.cancel(ids[0])).cancel_asked_at is not None
        await live.until(ids[0], "cancelled")
        proceed.set()
        await live.until(ids[1], "completed")


class TestRetryingNow:
    async def test_a_head_that_waits_for_its_retry_runs_now(self, work: Work) -> None:
        ids = await retrying(work)
        stream = await work.app.streams.retry_now(NAME)
        assert stream.head is not None
        assert (stream.state, stream.head.attempt) == ("retrying", 1)
        await run_until_idle(work.app)
        assert work.seen == ["a", "a", "b", "c"]
        outcomes = [each.outcome for each in await work.app.deliveries.history(ids[0])]
        assert sorted(outcomes) == ["completed", "retried", "retry"]

    async def test_a_head_that_is_not_due_yet_runs_now(self, work: Work) -> None:
        await waiting(work)
        await work.app.streams.retry_now(NAME)
        assert await run_until_idle(work.app) == 2
        assert work.seen == ["a", "b"]

    @pytest.mark.parametrize("by", ["stream", "delivery"])
    async def test_a_dead_head_gets_all_its_attempts_back(self, work: Work, by: str) -> None:
        ids = await blocked(work)
        if by == "stream":
            await work.app.streams.retry_now(NAME)
        else:
            assert (await work.app.retry(ids[0])).state == "pending"
        head = await work.app.get(ids[0])
        assert (head.state, head.attempt, head.position) == ("pending", 0, 1)
        assert (await work.stream()).state == "waiting"
        await run_until_idle(work.app)
        assert work.seen == ["a", "a", "b", "c"]

    async def test_a_retried_head_of_a_paused_stream_waits_for_the_resume(self, work: Work) -> None:
        ids = await blocked(work)
        assert (await work.app.streams.pause(NAME)).state == "blocked"
        stream = await work.app.streams.retry_now(NAME)
        assert (stream.state, await work.states(ids[0])) == ("paused", ["pending"])
        assert await run_until_idle(work.app) == 0
        await work.app.streams.resume(NAME)
        await run_until_idle(work.app)
        assert work.seen == ["a", "a", "b", "c"]


class TestReleasing:
    @pytest.mark.requirement("F6")
    async def test_a_waiting_head_keeps_its_time_and_runs_outside_of_the_stream(
        self, work: Work, clock: VirtualClock
    ) -> None:
        ids = await retrying(work)
        next_at = (await work.app.get(ids[0])).next_at
        stream = await work.app.streams.release(NAME)
        assert stream.head is not None
        assert (stream.state, stream.head.id, stream.waiting) == ("waiting", ids[1], 1)
        head = await work.app.get(ids[0])
        assert (head.next_at, head.position, head.stream) == (next_at, 1, NAME)
        await run_until_idle(work.app)
        assert work.seen == ["a", "b", "c"]
        clock.advance(MINUTE)
        await run_until_idle(work.app)
        assert work.seen == ["a", "b", "c", "a"]

    @pytest.mark.requirement("F6")
    async def test_a_dead_head_stays_dead_and_does_not_block(self, work: Work) -> None:
        ids = await blocked(work)
        await work.app.streams.release(NAME)
        await run_until_idle(work.app)
        assert await work.states(*ids) == ["dead", "completed", "completed"]

    async def test_the_last_delivery_can_be_released(self, work: Work) -> None:
        work.dies("a")
        await work.add("a")
        await run_until_idle(work.app)
        assert (await work.app.streams.release(NAME)).state == "idle"
        await work.add("b")
        await run_until_idle(work.app)
        assert work.seen == ["a", "b"]

    async def test_a_released_delivery_can_be_retried(self, work: Work) -> None:
        ids = await retrying(work)
        await work.app.streams.release(NAME)
        assert (await work.app.retry(ids[0])).state == "pending"
        await run_until_idle(work.app)
        assert sorted(work.seen) == ["a", "a", "b", "c"]

    async def test_a_released_delivery_can_be_cancelled(self, work: Work) -> None:
        ids = await retrying(work)
        await work.app.streams.release(NAME)
        assert (await work.app.cancel(ids[0])).state == "cancelled"
        await run_until_idle(work.app, within=2 * MINUTE)
        assert work.seen == ["a", "b", "c"]


class TestDeadLettering:
    @pytest.mark.parametrize("state", [retrying, waiting, paused])
    async def test_the_head_becomes_a_dead_letter_and_the_others_run(
        self, work: Work, state: Callable[[Work], Awaitable[list[str]]]
    ) -> None:
        ids = await state(work)
        await work.app.streams.dead_letter_head(NAME, "not worth it")
        head = await work.app.get(ids[0])
        assert (head.state, head.reason, head.error) == ("dead", "operator", "not worth it")
        assert head.finished_at is not None
        last = (await work.app.deliveries.history(ids[0]))[-1]
        assert (last.outcome, last.before, last.after) == ("dead_lettered", "pending", "dead")
        if state is paused:
            assert await run_until_idle(work.app) == 0
            await work.app.streams.resume(NAME)
        await run_until_idle(work.app)
        assert await work.states(*ids[1:]) == ["completed"] * len(ids[1:])

    async def test_the_head_can_be_retried_like_any_dead_letter(self, work: Work) -> None:
        ids = await waiting(work)
        await work.app.streams.dead_letter_head(NAME)
        await work.app.retry(ids[0])
        assert await run_until_idle(work.app) == 2
        assert work.seen == ["a", "b"], "an earlier position runs first"


async def test_every_operation_is_in_the_audit_trail(work: Work) -> None:
    ids = await retrying(work)
    await work.app.streams.configure(NAME, on_failure="block")
    await work.app.streams.pause(NAME, "holidays")
    await work.app.streams.resume(NAME)
    await work.app.streams.retry_now(NAME)
    await work.app.streams.release(NAME)
    await work.app.streams.dead_letter_head(NAME, "why")
    entries = [
        (each.action, each.detail) for each in await work.app.audit.list() if each.subject == NAME
    ]
    assert entries == [
        ("stream.dead_lettered", {"head": ids[1], "note": "why"}),
        ("stream.released", {"head": ids[0]}),
        ("stream.retried", {"head": ids[0]}),
        ("stream.resumed", None),
        ("stream.paused", {"reason": "holidays"}),
        ("stream.configured", {"on_failure": "block"}),
    ]
    with pytest.raises(Conflict):
        await work.app.streams.release(NAME)
    assert len(await work.app.audit.list()) == 6
