"""Streams from outside: each row of the decision table, order, and how deliveries are added."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.domain.deliveries.outcomes import Completed, Failed
from duly.records.reason import Reason
from duly.testing import RecordingTransport, VirtualClock, run_until_idle
from tests.services.work import NAME, Work, running, until_set

MINUTE = 60.0
SOON = 0.5
"""Long enough for a lane to be claimed again after deliveries may have been added."""


async def is_empty(app: App) -> bool:
    """Whether every lane has ended, after the last claims."""
    await run_until_idle(app, within=SOON)
    return not await app.store.agenda.survey()


@pytest.mark.requirement("F6")
class TestDecisionTable:
    """What the state of a head means for the deliveries behind it."""

    @pytest.mark.parametrize("policy", ["block", "release"])
    async def test_behind_a_processing_head_they_wait(self, live: Work, policy: str) -> None:
        proceed = live.waits("a")
        first, second = await live.add("a", "b", on_failure=policy)
        async with running(live.app):
            await until_set(live.began["a"])
            stream = await live.stream()
            assert (stream.state, stream.waiting) == ("running", 1)
            assert stream.head is not None
            assert (stream.head.id, stream.head.state) == (first, "processing")
            assert live.seen == ["a"]
            proceed.set()
            await live.until(second, "completed")

    async def test_behind_a_blocking_retry_they_wait(self, work: Work, clock: VirtualClock) -> None:
        work.fails("a", 2)
        ids = await work.add("a", "b", on_failure="block")
        assert await run_until_idle(work.app) == 1
        clock.advance(MINUTE)
        assert await run_until_idle(work.app) == 1
        assert (await work.states(*ids), work.seen) == (["pending", "pending"], ["a", "a"])
        clock.advance(MINUTE)
        assert await run_until_idle(work.app) == 2
        assert work.seen == ["a", "a", "a", "b"]

    async def test_behind_a_released_retry_they_proceed(
        self, work: Work, clock: VirtualClock
    ) -> None:
        work.fails("a")
        ids = await work.add("a", "b", "c", on_failure="release")
        assert await run_until_idle(work.app) == 3
        assert await work.states(*ids) == ["pending", "completed", "completed"]
        head = await work.app.get(ids[0])
        assert (head.attempt, head.next_at) == (1, clock.now() + timedelta(minutes=1))
        clock.advance(MINUTE)
        await run_until_idle(work.app)
        assert work.seen == ["a", "b", "c", "a"]
        assert await is_empty(work.app)

    async def test_behind_a_blocking_dead_head_they_wait(
        self, work: Work, clock: VirtualClock
    ) -> None:
        work.dies("a")
        ids = await work.add("a", "b", on_failure="block")
        await run_until_idle(work.app)
        clock.advance(100 * MINUTE)
        assert await run_until_idle(work.app) == 0
        assert (await work.states(*ids), work.seen) == (["dead", "pending"], ["a"])

    async def test_behind_a_released_dead_head_they_proceed(self, work: Work) -> None:
        work.dies("a")
        ids = await work.add("a", "b", on_failure="release")
        await run_until_idle(work.app)
        assert await work.states(*ids) == ["dead", "completed"]
        assert await is_empty(work.app)

    @pytest.mark.parametrize("policy", ["block", "release"])
    async def test_behind_a_completed_or_cancelled_head_they_proceed(
        self, work: Work, policy: str
    ) -> None:
        ids = await work.add("a", "b", "c", on_failure=policy)
        await work.app.cancel(ids[1])
        await run_until_idle(work.app)
        assert await work.states(*ids) == ["completed", "cancelled", "completed"]
        assert work.seen == ["a", "c"]
        assert await is_empty(work.app)

    @pytest.mark.parametrize("place", [0, 1, 2])
    async def test_behind_an_expired_head_they_proceed(
        self, work: Work, clock: VirtualClock, place: int
    ) -> None:
        payloads = ["a", "b", "c"]
        ids = []
        for number, payload in enumerate(payloads):
            expires_at = clock.now() + timedelta(seconds=9) if number == place else None
            ids += await work.add(payload, expires_at=expires_at)
        clock.advance(MINUTE)
        await run_until_idle(work.app)
        states = ["cancelled" if number == place else "completed" for number in range(3)]
        assert await work.states(*ids) == states
        assert work.seen == [each for each in payloads if each != payloads[place]]
        assert await is_empty(work.app)


@pytest.mark.requirement("F6")
async def test_a_streams_policy_applies_unless_a_delivery_has_its_own(work: Work) -> None:
    await work.app.streams.configure(NAME, on_failure="release")
    work.dies("a")
    work.dies("b")
    ids = await work.add("a")
    ids += await work.add("b", on_failure="block")
    ids += await work.add("c")
    await run_until_idle(work.app)
    assert await work.states(*ids) == ["dead", "dead", "pending"]
    await work.app.streams.configure(NAME, on_failure=None)
    assert (await work.stream()).on_failure == "block"


@pytest.mark.requirement("F5")
async def test_deliveries_of_a_stream_run_in_the_order_of_their_acceptance(work: Work) -> None:
    for number in range(70):
        await work.add(number, priority=1 + number % 9)
    await run_until_idle(work.app)
    assert work.seen == list(range(70))
    assert await is_empty(work.app)


@pytest.mark.requirement("F5")
async def test_others_do_not_wait_for_a_waiting_stream(work: Work) -> None:
    work.fails("a")
    await work.add("a", "b")
    await work.add("x", stream="team:8")
    await work.add("free", stream=None)
    await run_until_idle(work.app)
    assert sorted(work.seen) == ["a", "free", "x"]


@pytest.mark.requirement("F5")
async def test_behind_a_head_that_is_not_due_they_wait(work: Work, clock: VirtualClock) -> None:
    ids = await work.add("a", after=MINUTE)
    ids += await work.add("b")
    assert await run_until_idle(work.app) == 0
    stream = await work.stream()
    assert (stream.state, stream.waiting) == ("waiting", 1)
    assert stream.head is not None
    assert stream.head.next_at == clock.now() + timedelta(minutes=1)
    clock.advance(MINUTE)
    await run_until_idle(work.app)
    assert work.seen == ["a", "b"]


@pytest.mark.requirement("F5")
async def test_deliveries_with_other_targets_and_times_keep_their_order(
    work: Work, clock: VirtualClock
) -> None:
    await work.add("a", after=30.0)
    await work.add("b", target="other")
    await work.add("c", target="other", after=90.0)
    await work.add("d")
    await work.add("e", target="other")
    for seconds, seen in ((29, []), (1, ["a", "b"]), (59, ["a", "b"]), (1, [*"abcde"])):
        clock.advance(seconds)
        await run_until_idle(work.app)
        assert work.seen == seen
    assert await is_empty(work.app)


@pytest.mark.requirement("F6")
async def test_a_run_with_a_failed_delivery_hands_back_the_rest_unchanged(
    work: Work, clock: VirtualClock
) -> None:
    ids = await work.add("a", "b", "c")
    await run_until_idle(work.app, transport=failing_second())
    assert await work.states(*ids) == ["completed", "pending", "pending"]
    follower = await work.app.get(ids[2])
    assert (follower.attempt, follower.started_at, follower.reason) == (0, None, None)
    assert await work.app.attempts(ids[2]) == []
    assert [each.outcome for each in await work.app.attempts(ids[1])] == ["retry"]
    clock.advance(MINUTE)
    await run_until_idle(work.app)
    assert work.seen == ["b", "c"]


def failing_second() -> RecordingTransport:
    """A transport that fails from the second attempt on."""
    answers = [Completed(), Failed(Reason.UNKNOWN, "the second fails")]
    return RecordingTransport("work", answers=answers, plan=duly.delays(60))


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("policy", ["block", "release"])
async def test_deferred_together_they_keep_their_order(
    work: Work, clock: VirtualClock, policy: str
) -> None:
    work.failing["a"].append(duly.Retry(after=30))
    work.failing["b"].append(duly.Retry(after=30))
    await work.add("a", "b", "c", on_failure=policy)
    await run_until_idle(work.app)
    assert work.seen == (["a"] if policy == "block" else ["a", "b", "c"])
    for _ in range(2):
        clock.advance(30)
        await run_until_idle(work.app)
    block, release = [*"aabbc"], [*"abcab"]
    assert work.seen == (block if policy == "block" else release)


@pytest.mark.requirement("F5")
async def test_transactions_in_a_stream_are_committed_in_order(app: App) -> None:
    seen: list[Any] = []
    failing = [1]

    @app.handler("pay", retry=duly.delays(0))
    async def pay(delivery: Delivery[int]) -> None:
        assert delivery.payload is not None
        await delivery.transaction.execute(f"insert into effects values ({delivery.payload})")
        seen.append(delivery.payload)
        if delivery.payload in failing:
            failing.remove(delivery.payload)
            raise RuntimeError("not yet")

    await statement(app, "create table effects (value integer)")
    ids = [(await app.deliver("pay", number, stream=NAME)).id for number in range(5)]
    await run_until_idle(app)
    assert seen == [0, 1, 1, 2, 3, 4]
    rows = await statement(app, "select value from effects")
    assert sorted(row[0] for row in rows) == [0, 1, 2, 3, 4]
    assert {(await app.get(id)).state for id in ids} == {duly.State.COMPLETED}
    assert await is_empty(app)


async def statement(app: App, sql: str) -> list[Any]:
    database = app.store.database  # type: ignore[attr-defined]
    if app.store.single_owner:
        return list(await database.write(lambda each: each.execute(sql).fetchall()))
    async with database.shared() as connection:
        return list(await connection.fetch(sql))


@pytest.mark.requirement("F5")
async def test_a_schedule_adds_its_occurrences_to_a_stream_when_they_are_due(
    work: Work, clock: VirtualClock
) -> None:
    work.fails("a")
    await work.app.schedule(
        "every", duly.every(MINUTE, anchor=clock.now()), "work", "tick", stream=NAME
    )
    clock.advance(30)
    await work.add("a", "b")
    await run_until_idle(work.app)
    assert work.seen == ["a"]
    clock.advance(30)
    await run_until_idle(work.app)
    assert work.seen == ["a"], "the occurrence waits behind earlier deliveries"
    stream = await work.stream()
    assert (stream.state, stream.waiting) == ("retrying", 2)
    clock.advance(30)
    await run_until_idle(work.app)
    assert work.seen == ["a", "a", "b", "tick"]


@pytest.mark.requirement("F5")
async def test_a_known_key_adds_nothing_to_a_stream(work: Work) -> None:
    first = await work.add("a", key="one")
    assert await work.add("a", key="one") == first
    await work.add("b", "c")
    assert await work.add("c", key="two", stream=None) != first
    await work.app.deliver_many(
        [{"target": "work", "payload": "a", "key": "one", "stream": NAME} for _ in range(3)]
    )
    assert (await work.stream()).waiting == 2
    await run_until_idle(work.app)
    assert sorted(work.seen) == ["a", "b", "c", "c"]
    assert await is_empty(work.app), "an unused position must not keep the lane"


@pytest.mark.requirement("F5")
async def test_a_stream_can_be_used_again(work: Work) -> None:
    for payload in "abc":
        await work.add(payload)
        await run_until_idle(work.app, within=SOON)
        assert (await work.stream()).state == "idle"
    assert work.seen == ["a", "b", "c"]


@pytest.mark.requirement("F5")
async def test_many_are_accepted_with_and_without_streams(work: Work) -> None:
    items = [
        {"target": "work", "payload": f"{stream} {number}", "stream": stream}
        for number in range(40)
        for stream in ("x", None, "y")
    ]
    accepted = await work.app.deliver_many(items)
    assert len({each.id for each in accepted}) == 120
    await run_until_idle(work.app)
    for stream in ("x", "y"):
        ran = [each for each in work.seen if each.startswith(stream)]
        assert ran == [f"{stream} {number}" for number in range(40)]
    assert len(work.seen) == 120
    assert await is_empty(work.app)


@pytest.mark.requirement("F5", "D6")
async def test_two_workers_never_run_two_of_one_stream(postgres_url: str) -> None:
    apps = [App(postgres_url, environment={}, concurrency=4) for _ in range(2)]
    running_streams: set[str] = set()
    ran: dict[str, list[int]] = {f"team:{number}": [] for number in range(8)}
    done = asyncio.Event()

    async def handle(delivery: Delivery[int]) -> None:
        assert delivery.stream is not None
        assert delivery.stream not in running_streams
        running_streams.add(delivery.stream)
        await asyncio.sleep(0)
        running_streams.remove(delivery.stream)
        ran[delivery.stream].append(delivery.payload)
        if sum(map(len, ran.values())) == 8 * 40:
            done.set()

    for app in apps:
        app.handler("work")(handle)
    async with apps[0], apps[1]:
        for number in range(40):
            items = [{"target": "work", "payload": number, "stream": each} for each in ran]
            await apps[number % 2].deliver_many(items)
        async with running(apps[0]), running(apps[1]):
            await until_set(done)
    assert list(ran.values()) == [list(range(40))] * 8
