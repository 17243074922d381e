"""Pausing and resuming a stream."""

from datetime import timedelta

import pytest

from duly.testing import VirtualClock, run_until_idle
from tests.services.work import NAME, Work, blocked, idle, paused, running, until_set, waiting

pytestmark = pytest.mark.requirement("F7")
MINUTE = 60.0


async def test_a_paused_stream_accepts_and_starts_nothing(work: Work, clock: VirtualClock) -> None:
    await work.add("a")
    paused_at = clock.now()
    await work.app.streams.pause(NAME, "holidays")
    clock.advance(MINUTE)
    await work.add("b")
    await work.add("free", stream=None)
    assert await run_until_idle(work.app) == 1
    stream = await work.stream()
    assert (stream.state, stream.since, stream.waiting) == ("paused", paused_at, 1)
    assert stream.pause_reason == "holidays"
    assert f"duly streams resume {NAME}" in stream.to_do
    await work.app.streams.resume(NAME)
    await run_until_idle(work.app)
    assert work.seen == ["free", "a", "b"]
    assert (await work.stream()).pause_reason is None


async def test_an_idle_stream_can_be_paused_before_it_is_used(work: Work) -> None:
    await idle(work)
    await work.app.streams.pause(NAME)
    await work.add("b", "c")
    assert await run_until_idle(work.app) == 0
    await work.app.streams.resume(NAME)
    await run_until_idle(work.app)
    assert work.seen == ["a", "b", "c"]


async def test_a_retry_keeps_its_time_through_a_pause(work: Work, clock: VirtualClock) -> None:
    ids = await paused(work)
    clock.advance(10)
    stream = await work.app.streams.resume(NAME)
    assert stream.state == "retrying"
    next_at = clock.now() + timedelta(seconds=50)
    assert (await work.app.get(ids[0])).next_at == next_at
    assert await run_until_idle(work.app) == 0
    clock.advance(50)
    await run_until_idle(work.app)
    assert work.seen == ["a", "a", "b", "c"]


async def test_a_head_that_is_not_due_keeps_its_time_through_a_pause(
    work: Work, clock: VirtualClock
) -> None:
    await waiting(work)
    await work.app.streams.pause(NAME)
    await work.app.streams.resume(NAME)
    clock.advance(29)
    assert await run_until_idle(work.app) == 0
    clock.advance(1)
    assert await run_until_idle(work.app) == 2


async def test_a_blocked_stream_stays_blocked(work: Work) -> None:
    ids = await blocked(work)
    assert (await work.app.streams.pause(NAME)).state == "blocked"
    assert (await work.app.streams.release(NAME)).state == "paused"
    assert await run_until_idle(work.app) == 0
    await work.app.streams.resume(NAME)
    await run_until_idle(work.app)
    assert await work.states(*ids) == ["dead", "completed", "completed"]


async def test_resuming_a_blocked_stream_does_not_unblock_it(work: Work) -> None:
    await blocked(work)
    await work.app.streams.pause(NAME)
    assert (await work.app.streams.resume(NAME)).state == "blocked"
    assert await run_until_idle(work.app) == 0


@pytest.mark.parametrize("fails", [False, True])
async def test_a_claimed_run_is_finished_before_the_pause_takes_effect(
    live: Work, fails: bool
) -> None:
    proceed = live.waits("a")
    first, second = await live.add("a", "b", on_failure="block")
    if fails:
        live.fails("a")
    (third,) = await live.add("c", target="other")
    async with running(live.app):
        await until_set(live.began["a"])
        assert (await live.app.streams.pause(NAME)).state == "paused"
        proceed.set()
        await live.until(second if not fails else first, "pending" if fails else "completed")
        marker = await live.app.deliver("other", "marker")
        await live.until(marker.id, "completed")
        stream = await live.stream()
        assert stream.head is not None
        assert (stream.state, stream.head.next_at) == ("paused", None)
        assert stream.head.id == (first if fails else third)
        assert "c" not in live.seen
        await live.app.streams.resume(NAME)
        if fails:
            await live.app.streams.retry_now(NAME)
        await live.until(third, "completed")
