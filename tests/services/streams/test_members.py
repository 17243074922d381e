"""Single deliveries of a stream: cancelled, retried, and put back at their position."""

from datetime import timedelta

import pytest

from duly import Conflict
from duly.testing import VirtualClock, run_until_idle
from tests.services.work import NAME, Work, running, until_set

MINUTE = 60.0


@pytest.mark.requirement("F7")
class TestCancelling:
    @pytest.mark.parametrize("place", [0, 1, 2])
    async def test_a_cancelled_delivery_leaves_the_stream(self, work: Work, place: int) -> None:
        ids = await work.add("a", "b", "c")
        cancelled = await work.app.cancel(ids[place])
        assert (cancelled.state, cancelled.position) == ("cancelled", place + 1)
        assert [each.outcome for each in await work.app.deliveries.history(ids[place])] == [
            "cancelled"
        ]
        await run_until_idle(work.app, within=1.0)
        assert work.seen == [each for each in "abc" if each != "abc"[place]]
        assert (await work.stream()).state == "idle"
        assert await work.app.store.agenda.survey() == []
        assert (await work.app.cancel(ids[place])).finished_at == cancelled.finished_at

    async def test_cancelling_a_head_that_waits_for_its_retry_lets_the_next_run(
        self, work: Work
    ) -> None:
        work.fails("a")
        ids = await work.add("a", "b")
        await run_until_idle(work.app)
        await work.app.cancel(ids[0])
        await run_until_idle(work.app)
        assert work.seen == ["a", "b"]

    async def test_the_next_delivery_keeps_its_due_time(
        self, work: Work, clock: VirtualClock
    ) -> None:
        ids = await work.add("a")
        ids += await work.add("b", after=MINUTE)
        await work.app.cancel(ids[0])
        assert await run_until_idle(work.app) == 0
        assert (await work.app.get(ids[1])).next_at == clock.now() + timedelta(minutes=1)

    async def test_all_deliveries_can_be_cancelled(self, work: Work) -> None:
        ids = await work.add("a", "b", "c")
        for id in reversed(ids):
            await work.app.cancel(id)
        assert await run_until_idle(work.app, within=1.0) == 0
        await work.add("d")
        await run_until_idle(work.app)
        assert work.seen == ["d"]

    async def test_a_paused_stream_stays_paused(self, work: Work) -> None:
        ids = await work.add("a", "b")
        await work.app.streams.pause(NAME)
        await work.app.cancel(ids[0])
        stream = await work.stream()
        assert stream.head is not None
        assert (stream.state, stream.head.id) == ("paused", ids[1])
        assert await run_until_idle(work.app) == 0

    async def test_behind_a_dead_head_the_stream_stays_blocked(self, work: Work) -> None:
        work.dies("a")
        ids = await work.add("a", "b", "c")
        await run_until_idle(work.app)
        await work.app.cancel(ids[1])
        stream = await work.stream()
        assert (stream.state, stream.waiting) == ("blocked", 1)
        with pytest.raises(Conflict, match="is dead; only a pending"):
            await work.app.cancel(ids[0])

    async def test_a_delivery_behind_the_claimed_run_can_be_cancelled(self, live: Work) -> None:
        proceed = live.waits(0)
        ids = await live.add(*range(40))
        async with running(live.app):
            await until_set(live.began[0])
            for place in (1, 31):
                with pytest.raises(Conflict, match="is being run with its stream"):
                    await live.app.cancel(ids[place])
            for place in (32, 39):
                assert (await live.app.cancel(ids[place])).state == "cancelled"
            proceed.set()
            await live.until(ids[38], "completed")
        assert live.seen == [each for each in range(40) if each not in (32, 39)]


@pytest.mark.requirement("F4", "F5")
class TestRetrying:
    async def test_an_earlier_dead_letter_goes_first(self, work: Work, clock: VirtualClock) -> None:
        work.dies("a")
        work.fails("b")
        ids = await work.add("a", on_failure="release")
        ids += await work.add("b", "c")
        await run_until_idle(work.app)
        assert work.seen == ["a", "b"]
        retried = await work.app.retry(ids[0])
        assert (retried.state, retried.attempt, retried.position) == ("pending", 0, 1)
        stream = await work.stream()
        assert stream.head is not None
        assert (stream.head.id, stream.waiting) == (ids[0], 2)
        clock.advance(MINUTE)
        await run_until_idle(work.app)
        assert work.seen == ["a", "b", "a", "b", "c"]

    async def test_a_later_dead_letter_waits_for_its_turn(
        self, work: Work, clock: VirtualClock
    ) -> None:
        work.fails("a", 2)
        work.dies("b")
        ids = await work.add("a", "b", "c", on_failure="release")
        await run_until_idle(work.app)
        assert work.seen == ["a", "b", "c"]
        (last,) = await work.add("d", after=MINUTE)
        await work.app.retry(ids[1])
        await run_until_idle(work.app)
        assert work.seen == ["a", "b", "c", "b"]
        assert await work.states(last) == ["pending"]

    async def test_in_an_idle_stream_it_is_the_only_delivery(self, work: Work) -> None:
        work.dies("a")
        ids = await work.add("a", "b", on_failure="release")
        await run_until_idle(work.app, within=1.0)
        await work.app.retry(ids[0])
        await run_until_idle(work.app, within=1.0)
        assert work.seen == ["a", "b", "a"]
        assert await work.app.store.agenda.survey() == []

    async def test_two_dead_letters_run_in_their_order(self, work: Work) -> None:
        for payload in "ab":
            work.dies(payload)
        ids = await work.add("a", "b", "c", on_failure="release")
        await run_until_idle(work.app)
        for id in reversed(ids[:2]):
            await work.app.retry(id)
        await run_until_idle(work.app)
        assert work.seen == [*"abcab"]

    @pytest.mark.parametrize("place", [0, 2])
    async def test_a_retried_delivery_waits_while_another_blocks(
        self, work: Work, place: int
    ) -> None:
        for payload in "ac":
            work.dies(payload)
        ids = await work.add("a", on_failure="release")
        ids += await work.add("b")
        ids += await work.add("c", on_failure="release")
        ids += await work.add("d")
        await run_until_idle(work.app)
        work.dies("e")
        ids += await work.add("e", "f")
        await run_until_idle(work.app)
        await work.app.retry(ids[place])
        assert await run_until_idle(work.app) == 0
        assert (await work.stream()).state == "blocked"
        await work.app.retry(ids[4])
        await run_until_idle(work.app)
        assert work.seen == [*"abcde", "abc"[place], *"ef"], "the earlier position first"

    @pytest.mark.parametrize("operation", ["release", "retry_now"])
    async def test_a_retried_delivery_before_a_dead_head_runs_first(
        self, work: Work, operation: str
    ) -> None:
        work.dies("a")
        work.dies("b")
        ids = await work.add("a", on_failure="release")
        ids += await work.add("b", "c")
        await run_until_idle(work.app)
        await work.app.retry(ids[0])
        await getattr(work.app.streams, operation)(NAME)
        await run_until_idle(work.app)
        assert work.seen == [*"aba", *("bc" if operation == "retry_now" else "c")]

    async def test_a_retry_while_the_lane_is_held_runs_next(self, live: Work) -> None:
        proceed = live.waits("b")
        live.dies("a")
        ids = await live.add("a", on_failure="release")
        ids += await live.add("b")
        ids += await live.add("c", target="other")
        async with running(live.app):
            await until_set(live.began["b"])
            assert (await live.app.retry(ids[0])).state == "pending"
            proceed.set()
            await live.until(ids[2], "completed")
        assert live.seen == ["a", "b", "a", "c"]

    async def test_a_retry_while_the_last_delivery_runs_is_not_lost(self, live: Work) -> None:
        proceed = live.waits("b")
        live.dies("a")
        ids = await live.add("a", "b", on_failure="release")
        async with running(live.app):
            await until_set(live.began["b"])
            await live.app.retry(ids[0])
            proceed.set()
            await live.until(ids[0], "completed")
            await live.until(ids[1], "completed")
        assert live.seen == ["a", "b", "a"]

    async def test_an_earlier_retried_delivery_runs_before_the_heads_retry(
        self, live: Work
    ) -> None:
        proceed = live.waits("b")
        live.dies("a")
        live.fails("b")
        ids = await live.add("a", on_failure="release")
        ids += await live.add("b", "c", on_failure="block")
        async with running(live.app):
            await until_set(live.began["b"])
            await live.app.retry(ids[0])
            proceed.set()
            await live.until(ids[0], "completed")
            await live.until(ids[2], "completed")
        assert live.seen == ["a", "b", "a", "b", "c"]

    async def test_no_delivery_behind_the_claimed_run_is_skipped(self, live: Work) -> None:
        live.dies(35)
        ids = await live.add(*range(40), on_failure="release")
        async with running(live.app):
            await live.until(ids[39], "completed")
            proceed = live.waits("slow")
            ids += await live.add("slow", *range(100, 140))
            await until_set(live.began["slow"])
            await live.app.retry(ids[35])
            proceed.set()
            await live.until(ids[35], "completed")
            await live.until(ids[-1], "completed")
        assert [each for each in live.seen if each != 35] == [
            *(each for each in range(40) if each != 35),
            "slow",
            *range(100, 140),
        ]

    async def test_a_waiting_head_is_due_now(self, work: Work) -> None:
        work.fails("a")
        ids = await work.add("a", "b")
        await run_until_idle(work.app)
        assert (await work.app.retry(ids[0])).attempt == 1
        await run_until_idle(work.app)
        assert work.seen == ["a", "a", "b"]

    async def test_retrying_a_delivery_behind_others_is_refused(self, work: Work) -> None:
        work.fails("a")
        ids = await work.add("a", "b")
        await run_until_idle(work.app)
        why = rf"waits in stream 'team:7', behind delivery {ids[0]} \(retrying, next at 2026"
        with pytest.raises(Conflict, match=why):
            await work.app.retry(ids[1])
        await work.app.streams.pause(NAME)
        for id in ids:
            with pytest.raises(Conflict, match="waits in stream 'team:7', paused since"):
                await work.app.retry(id)

    @pytest.mark.parametrize("verb", ["cancel", "retry"])
    async def test_a_completed_delivery_is_refused(self, work: Work, verb: str) -> None:
        ids = await work.add("a", "b")
        await run_until_idle(work.app)
        with pytest.raises(Conflict, match=f"{ids[0]} is completed; only a"):
            await getattr(work.app, verb)(ids[0])
