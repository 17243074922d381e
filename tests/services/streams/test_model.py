"""Any sequence of operations on a stream has the result that a small model of it has."""

from __future__ import annotations

import asyncio
import itertools
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duly import App, Conflict
from duly.testing import VirtualClock, run_until_idle
from tests.services.streams.stream_model import BLOCK_SECONDS, RETRY_SECONDS, StreamModel
from tests.services.work import NAME, Work

AGAIN_SECONDS, MOST_AGAIN = 0.05, 10
"""How soon a lane is due again whose last deliveries were released before the others: on PostgreSQL
it may be left without a delivery, and what is added meanwhile is claimed a little later."""
NEAR = timedelta(seconds=AGAIN_SECONDS * MOST_AGAIN)

pytestmark = [pytest.mark.requirement("L4"), pytest.mark.long]

PLANS = [[], [], ["fails"], ["fails"] * 3, ["dies"], ["dies", "dies"], ["fails", "dies"]]
chosen = st.integers(0, 20)
operations = st.one_of(
    st.tuples(st.just("accept"), st.sampled_from(PLANS)),
    st.tuples(st.sampled_from(["retry now", "release", "wait", "wait for the end"]), st.none()),
    st.tuples(
        st.sampled_from(["retry one", "discard one"]),
        chosen,
    ),
    st.tuples(st.sampled_from(["only", "keep"]), st.sets(chosen, min_size=1, max_size=4)),
)
EXAMPLES = itertools.count()
beginnings = st.lists(st.sampled_from(PLANS), min_size=2, max_size=5)


class Compared:
    """A stream of an app, and its model."""

    def __init__(self, app: App, clock: VirtualClock) -> None:
        self._app = app
        self._clock = clock
        self._work = Work(app)
        self._model = StreamModel()
        self._began = clock.now()
        self._ids: list[str] = []

    async def begin(self, plans: list[list[str]]) -> None:
        """Limit the blocks of the stream, and add the first deliveries."""
        await self._app.streams.configure(NAME, block_for=BLOCK_SECONDS)
        for plan in plans:
            await self._accept(plan)
        await self.compare()

    async def do(self, operation: str, argument: object) -> None:
        """Do one operation on both, and compare them after all that is due has run."""
        match operation, argument:
            case "accept", list():
                await self._accept(argument)
            case "retry now", _:
                await self._retry_now()
            case "release", _:
                await self._release()
            case (("only" | "keep"), set()):
                await self._release_some(operation, argument)
            case "wait", _:
                self._advance(RETRY_SECONDS)
            case "wait for the end", _:
                self._advance(BLOCK_SECONDS)
            case _, int():
                await self._one_dead(operation, argument)
        await self.compare()

    async def _accept(self, plan: list[str]) -> None:
        n = len(self._ids)
        for each in plan:
            {"fails": self._work.fails, "dies": self._work.dies}[each](n)
        self._ids += await self._work.add(n)
        self._model.accept(plan)

    async def _retry_now(self) -> None:
        head = self._model.head
        if head is None:
            with pytest.raises(Conflict):
                await self._app.streams.retry_now(NAME)
            return
        await self._app.streams.retry_now(NAME)
        self._model.retry(head)

    async def _release(self) -> None:
        if self._model.head is None:
            with pytest.raises(Conflict):
                await self._app.streams.release(NAME)
            return
        await self._app.streams.release(NAME)
        self._model.release()

    async def _release_some(self, field: str, numbers: set[int]) -> None:
        followers = self._model.followers
        given = [each for n, each in enumerate(followers) if n in numbers]
        moved = [each for each in followers if (each in given) is (field == "only")]
        if not given or not moved:
            return
        await self._app.streams.release(NAME, **{field: [self._ids[each.n] for each in given]})
        self._model.release_followers(moved)

    async def _one_dead(self, operation: str, number: int) -> None:
        dead = [each for each in self._model.items if each.state == "dead"]
        if not dead:
            return
        item = dead[number % len(dead)]
        if operation == "retry one":
            await self._app.retry(self._ids[item.n])
            self._model.retry(item)
        else:
            await self._app.dead_letters.discard(self._ids[item.n], "why")
            self._model.discard(item)

    def _advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self._model.now += seconds

    async def compare(self) -> None:
        """Run all that is due, and compare states, attempts, order and the stream's record."""
        apart = {each.n for each in self._model.items if not each.is_queued}
        self._work.seen.clear()
        self._model.ran.clear()
        await run_until_idle(self._app)
        self._model.run()
        for _ in range(MOST_AGAIN):
            if await self._states() == self._expected():
                break
            self._advance(AGAIN_SECONDS)
            await run_until_idle(self._app)
        apart |= {each.n for each in self._model.items if not each.is_queued}
        assert await self._states() == self._expected()
        assert [n for n in self._work.seen if n not in apart] == self._model.ran
        await self._compare_streams()
        # A lane that was left without a delivery is removed.
        self._advance(AGAIN_SECONDS)
        await run_until_idle(self._app)

    async def _states(self) -> list[tuple[str, int, int | None]]:
        found = [await self._app.get(id) for id in self._ids]
        return [(str(each.state), each.attempt, each.position) for each in found]

    def _expected(self) -> list[tuple[str, int, int | None]]:
        return [(each.state, each.attempt, each.n + 1) for each in self._model.items]

    async def _compare_streams(self) -> None:
        stream, model = await self._app.streams.get(NAME), self._model
        assert (stream.state, stream.waiting) == (model.state, len(model.followers))
        assert (stream.head and stream.head.id) == (model.head and self._ids[model.head.n])
        assert self._is_about(stream.blocked_until, model.until)
        if model.state == "retrying":
            assert stream.head is not None
            assert model.head is not None
            assert self._is_about(stream.head.next_at, model.head.due)

    def _is_about(self, moment: datetime | None, seconds: float | None) -> bool:
        if moment is None or seconds is None:
            return moment is seconds is None
        return abs(moment - self._began - timedelta(seconds=seconds)) <= NEAR


async def follow(database: str, plans: list[list[str]], steps: list[tuple[str, object]]) -> None:
    """Compare a stream of a new namespace with its model, step by step."""
    clock, namespace = VirtualClock(), f"example{next(EXAMPLES)}"
    settings = {"DULY_NAMESPACE": namespace}
    async with App(database, clock=clock, environment=settings) as app:
        compared = Compared(app, clock)
        await compared.begin(plans)
        for operation, argument in steps:
            await compared.do(operation, argument)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(plans=beginnings, steps=st.lists(operations, max_size=10))
def test_any_operations_have_the_result_of_the_model(
    database_url: str, plans: list[list[str]], steps: list[tuple[str, object]]
) -> None:
    asyncio.run(follow(database_url, plans, steps))
