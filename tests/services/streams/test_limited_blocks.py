"""A failed head that blocks its stream for a limited time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from duly import InvalidInput
from duly.testing import VirtualClock, run_until_idle
from tests.services.work import NAME, Work, blocked, retrying

pytestmark = pytest.mark.requirement("L4")
MINUTE = 60.0
State = Callable[[Work], Awaitable[list[str]]]


async def released_alerts(work: Work) -> list[str]:
    """The subjects of the active alerts about streams that went on without their heads."""
    return [
        each.subject for each in await work.app.alerts.raised() if each.kind == "stream_released"
    ]


async def test_a_dead_head_blocks_only_so_long(work: Work, clock: VirtualClock) -> None:
    await work.app.streams.configure(NAME, on_failure="block", block_for="15m")
    ids = await blocked(work)
    stream = await work.stream()
    assert (stream.state, stream.block_for) == ("blocked", 15 * MINUTE)
    assert stream.blocked_until == clock.now() + timedelta(minutes=15)
    assert "it goes on without its head at" in stream.to_do
    clock.advance(15 * MINUTE - 1)
    assert await run_until_idle(work.app) == 0
    clock.advance(1)
    await run_until_idle(work.app)
    assert work.seen == ["a", "b", "c"]
    assert await work.states(*ids) == ["dead", "completed", "completed"]
    stream = await work.stream()
    assert (stream.state, stream.block_for, stream.blocked_until) == ("idle", 15 * MINUTE, None)


async def test_a_head_that_waits_for_its_retry_is_retried_beside_the_others(
    work: Work, clock: VirtualClock
) -> None:
    await work.app.streams.configure(NAME, block_for=30)
    ids = await retrying(work)
    next_at = (await work.app.get(ids[0])).next_at
    clock.advance(30)
    await run_until_idle(work.app)
    assert work.seen == ["a", "b", "c"]
    assert (await work.app.get(ids[0])).next_at == next_at
    clock.advance(30)
    await run_until_idle(work.app)
    assert work.seen == ["a", "b", "c", "a"]


async def test_it_counts_from_the_first_failure_in_a_row(work: Work, clock: VirtualClock) -> None:
    await work.app.streams.configure(NAME, block_for=timedelta(seconds=150))
    work.fails("a", 3)
    ids = await work.add("a", "b")
    await run_until_idle(work.app)
    until = clock.now() + timedelta(seconds=150)
    await run_until_idle(work.app, within=2 * MINUTE)
    assert await work.states(*ids) == ["dead", "pending"]
    assert (await work.stream()).blocked_until == until
    await run_until_idle(work.app, within=MINUTE)
    assert clock.now() == until
    assert work.seen == ["a", "a", "a", "b"]


@pytest.mark.parametrize("target", ["work", "other"], ids=["in one run", "one by one"])
async def test_a_head_that_succeeds_begins_no_block_for_the_next(
    work: Work, clock: VirtualClock, target: str
) -> None:
    await work.app.streams.configure(NAME, block_for=90)
    work.fails("a")
    work.dies("b")
    ids = [*await work.add("a"), *await work.add("b", target=target), *await work.add("c")]
    await run_until_idle(work.app, within=MINUTE)
    assert await work.states(*ids) == ["completed", "dead", "pending"]
    assert (await work.stream()).blocked_until == clock.now() + timedelta(seconds=90)


async def test_a_block_that_was_prolonged_meanwhile_is_not_ended(
    work: Work, clock: VirtualClock
) -> None:
    await work.app.streams.configure(NAME, block_for=30)
    await blocked(work)
    clock.advance(30)
    (found,) = await work.app.store.agenda.limited_blocks(9)
    assert found.seconds_left == 0
    await work.app.streams.configure(NAME, block_for=31)
    assert await work.app.store.streams.end_block(NAME, "duly") is None
    assert ((await work.stream()).state, await released_alerts(work)) == ("blocked", [])
    clock.advance(1)
    ended = await work.app.store.streams.end_block(NAME, "duly")
    assert ended is not None
    assert await work.app.store.streams.end_block(NAME, "duly") is None


async def test_a_retried_head_has_all_its_time_again(work: Work, clock: VirtualClock) -> None:
    await work.app.streams.configure(NAME, block_for=90)
    await blocked(work)
    clock.advance(MINUTE)
    work.dies("a")
    stream = await work.app.streams.retry_now(NAME)
    assert stream.blocked_until is None
    await run_until_idle(work.app)
    assert (await work.stream()).blocked_until == clock.now() + timedelta(seconds=90)
    assert work.seen == ["a", "a"]


async def test_a_retry_now_of_a_waiting_head_gives_no_more_time(
    work: Work, clock: VirtualClock
) -> None:
    await work.app.streams.configure(NAME, block_for=90)
    work.fails("a", 2)
    await work.add("a", "b")
    await run_until_idle(work.app)
    until = clock.now() + timedelta(seconds=90)
    clock.advance(1)
    await work.app.streams.retry_now(NAME)
    await run_until_idle(work.app)
    assert (work.seen, (await work.stream()).blocked_until) == (["a", "a"], until)


async def test_a_retry_by_a_recovery_policy_gives_no_more_time(
    work: Work, clock: VirtualClock
) -> None:
    await work.app.recovery.set("validation_failure", tries=9, after="1m", then="hold")
    await work.app.streams.configure(NAME, block_for=150)
    for _ in range(9):
        work.dies("a")
    await work.add("a", "b")
    await run_until_idle(work.app)
    until = clock.now() + timedelta(seconds=150)
    await run_until_idle(work.app, within=2 * MINUTE)
    assert (work.seen, (await work.stream()).blocked_until) == (["a"] * 3, until)
    stream = await work.app.streams.configure(NAME, block_for=140)
    assert stream.blocked_until == until - timedelta(seconds=10)
    await run_until_idle(work.app, within=20)
    assert work.seen == ["a"] * 3 + ["b"]


async def test_a_head_that_waits_for_a_policys_retry_is_released_too(
    work: Work, clock: VirtualClock
) -> None:
    await work.app.recovery.set("validation_failure", tries=9, after="1m", then="hold")
    await work.app.streams.configure(NAME, block_for=150)
    ids = await blocked(work)
    clock.advance(MINUTE)
    engine = work.app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.reviver.catch_up()
    assert ((await work.stream()).state, work.seen) == ("waiting", ["a"])
    clock.advance(90)
    await engine.worker.stream_releaser.tick()
    stream = await work.stream()
    assert (stream.head and stream.head.id, stream.blocked_until) == (ids[1], None)
    await engine.stop()


async def test_each_block_is_limited_anew(work: Work, clock: VirtualClock) -> None:
    await work.app.streams.configure(NAME, block_for=90)
    work.dies("b")
    ids = await blocked(work)
    clock.advance(90)
    await run_until_idle(work.app)
    assert await work.states(*ids) == ["dead", "dead", "pending"]
    clock.advance(90)
    await run_until_idle(work.app)
    assert await work.states(*ids) == ["dead", "dead", "completed"]


async def test_a_delivery_with_its_own_policy_is_limited_too(
    work: Work, clock: VirtualClock
) -> None:
    await work.app.streams.configure(NAME, block_for=90)
    await blocked(work, on_failure="block")
    assert (await work.stream()).blocked_until == clock.now() + timedelta(seconds=90)


async def test_a_selective_release_does_not_change_the_end(work: Work, clock: VirtualClock) -> None:
    await work.app.streams.configure(NAME, block_for=90)
    ids = await blocked(work)
    until = (await work.stream()).blocked_until
    await work.app.streams.release(NAME, only=[ids[2]])
    assert (await work.stream()).blocked_until == until
    clock.advance(90)
    await run_until_idle(work.app)
    assert sorted(work.seen) == ["a", "b", "c"]


async def test_a_paused_stream_waits_to_be_resumed(work: Work, clock: VirtualClock) -> None:
    await work.app.streams.configure(NAME, block_for=30)
    await retrying(work)
    await work.app.streams.pause(NAME)
    clock.advance(45)
    assert await run_until_idle(work.app) == 0
    await work.app.streams.resume(NAME)
    await run_until_idle(work.app)
    assert work.seen == ["a", "b", "c"]


async def test_a_blocked_stream_that_is_paused_stays_paused(
    work: Work, clock: VirtualClock
) -> None:
    await work.app.streams.configure(NAME, block_for=30)
    await blocked(work)
    await work.app.streams.pause(NAME)
    clock.advance(45)
    assert await run_until_idle(work.app) == 0
    assert (await work.stream()).state == "paused"
    await work.app.streams.resume(NAME)
    await run_until_idle(work.app)
    assert work.seen == ["a", "b", "c"]


class TestReports:
    async def test_an_alert_an_audit_entry_and_a_count_say_so_once(
        self, work: Work, clock: VirtualClock
    ) -> None:
        await work.app.streams.configure(NAME, block_for=90)
        ids = await blocked(work)
        assert await released_alerts(work) == []
        clock.advance(90)
        for _ in range(2):
            await run_until_idle(work.app)
        (alert,) = await work.app.alerts.raised()
        assert (alert.kind, alert.subject) == ("stream_released", NAME)
        assert alert.detail == (
            f"its head {ids[0]} failed for 90 s, and those behind it go on without it"
        )
        entries = [each for each in await work.app.audit.list() if each.actor == "duly"]
        assert [(each.action, each.subject, each.detail) for each in entries] == [
            ("stream.released", NAME, {"head": ids[0], "block_for": 90.0})
        ]
        assert work.app.telemetry.counts["StreamReleased"] == 1
        assert work.app.telemetry.counts["AlertRaised"] == 1

    async def test_the_alert_of_a_stream_is_raised_once_while_it_is_active(
        self, work: Work, clock: VirtualClock
    ) -> None:
        await work.app.streams.configure(NAME, block_for=90)
        work.dies("b")
        ids = await blocked(work)
        clock.advance(90)
        await run_until_idle(work.app)
        clock.advance(90)
        await run_until_idle(work.app)
        (alert,) = await work.app.alerts.raised()
        assert ids[1] in alert.detail
        assert alert.seen_at == clock.now()
        assert work.app.telemetry.counts["StreamReleased"] == 2
        assert work.app.telemetry.counts["AlertRaised"] == 1

    async def test_many_streams_at_once_raise_a_limited_number_of_alerts(
        self, work: Work, clock: VirtualClock
    ) -> None:
        for n in range(23):
            await work.app.streams.configure(f"s{n:02}", block_for=90)
            work.dies(n)
            await work.add(n, stream=f"s{n:02}")
        await run_until_idle(work.app)
        clock.advance(90)
        await run_until_idle(work.app)
        assert work.app.telemetry.counts["StreamReleased"] == 23
        subjects = await released_alerts(work)
        assert len(subjects) == 21
        assert subjects[-1] == ""

    async def test_another_namespace_is_served_too(self, work: Work, clock: VirtualClock) -> None:
        other = work.app.within("other")
        await other.streams.configure(NAME, block_for=90)
        work.dies("a")
        for payload in "ab":
            await other.deliver("work", payload, stream=NAME)
        await run_until_idle(work.app)
        clock.advance(90)
        await run_until_idle(work.app)
        assert work.seen == ["a", "b"]
        assert [each.subject for each in await other.alerts.raised()] == [NAME]
        assert await released_alerts(work) == []


class TestConfiguring:
    @pytest.mark.parametrize("state", [retrying, blocked])
    async def test_a_limit_applies_to_the_present_block(
        self, work: Work, clock: VirtualClock, state: State
    ) -> None:
        await state(work)
        began = clock.now()
        clock.advance(20)
        stream = await work.app.streams.configure(NAME, block_for=30)
        assert stream.blocked_until == began + timedelta(seconds=30)
        stream = await work.app.streams.configure(NAME, block_for=50)
        assert stream.blocked_until == began + timedelta(seconds=50)
        stream = await work.app.streams.configure(NAME, block_for=None)
        assert (stream.block_for, stream.blocked_until) == (None, None)
        clock.advance(39)
        assert await run_until_idle(work.app) == 0
        await work.app.streams.configure(NAME, block_for=45)
        await run_until_idle(work.app)
        assert work.seen == ["a", "b", "c"]

    async def test_what_is_not_given_stays(self, work: Work) -> None:
        await work.app.streams.configure(NAME, block_for="15m")
        stream = await work.app.streams.configure(NAME, on_failure="block")
        assert (stream.on_failure, stream.block_for) == ("block", 900)
        stream = await work.app.streams.configure(NAME, on_failure=None)
        assert (stream.on_failure, stream.block_for) == ("block", 900)

    async def test_the_policy_release_ends_the_limit(self, work: Work) -> None:
        await work.app.streams.configure(NAME, block_for="15m")
        stream = await work.app.streams.configure(NAME, on_failure="release")
        assert (stream.on_failure, stream.block_for) == ("release", None)

    @pytest.mark.parametrize(
        "value",
        [
            0,
            -1,
            "0s",
            timedelta(),
            timedelta(days=-1),
            365 * 86400 + 1,
            "366d",
            "soon",
            True,
            float("nan"),
        ],
    )
    async def test_a_wrong_limit_is_refused(self, work: Work, value: Any) -> None:
        with pytest.raises(InvalidInput) as refused:
            await work.app.streams.configure(NAME, on_failure="block", block_for=value)
        assert refused.value.field == "block_for"
        assert await work.app.streams.list() == []

    async def test_a_limit_with_the_policy_release_is_refused(self, work: Work) -> None:
        with pytest.raises(InvalidInput, match="does not block") as refused:
            await work.app.streams.configure(NAME, on_failure="release", block_for=90)
        assert refused.value.field == "block_for"
        assert await work.app.streams.list() == []
        await work.app.streams.configure(NAME, on_failure="release")
        with pytest.raises(InvalidInput, match="does not block") as refused:
            await work.app.streams.configure(NAME, block_for=90)
        assert refused.value.field == "block_for"
        assert (await work.stream()).block_for is None

    async def test_nothing_to_change_is_refused(self, work: Work) -> None:
        with pytest.raises(InvalidInput, match="nothing to change"):
            await work.app.streams.configure(NAME)

    async def test_a_year_is_allowed(self, work: Work) -> None:
        stream = await work.app.streams.configure(NAME, block_for="365d")
        assert stream.block_for == 365 * 86400
