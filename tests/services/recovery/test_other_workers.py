"""Recovery by workers with other handlers, and with plans that were not read yet."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App
from duly.records.recovery import Disposition
from duly.testing import VirtualClock, run_until_idle
from tests.services.recovery.conftest import Deploy
from tests.services.recovery.test_policies import HOUR, die, policy
from tests.services.work import PLAN, Work
from tests.transports.receiver import answer, receiver

SECOND = timedelta(seconds=1)


@pytest.mark.requirement("L1")
async def test_the_retry_plan_of_an_endpoint_is_known_after_a_start(deploy: Deploy) -> None:
    async def refuse(_: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(500))

    async with receiver(refuse) as target:
        app = (await deploy(egress_allow="127.0.0.1")).app
        await app.endpoints.add("billing", target.url(), retry=duly.no_retry)
        sent = await app.deliver(duly.endpoint("billing"), 1)
        await run_until_idle(app)
        await app.recovery.set("attempts_exhausted", tries=1, after="10h", then="hold")
        app = (await deploy()).app
        await run_until_idle(app)
        assert (await app.get(sent.id)).disposition == "recovering"


@pytest.mark.requirement("L1")
async def test_workers_with_other_presets_do_not_undo_each_others_decisions(
    postgres_url: str, clock: VirtualClock
) -> None:
    given: dict[str, Any] = {"clock": clock, "environment": {}}
    async with (
        App(postgres_url, **given) as one,
        App(postgres_url, recovery_policies="presets", **given) as two,
    ):
        work = Work(one)
        work.fails("a", 3)
        await policy(one)
        (id,) = await work.add("a", stream=None)
        await run_until_idle(one, within=HOUR)
        two.handler("work", retry=PLAN)(record)
        first, second = (app.engine(stepped=True).worker.reviver for app in (one, two))
        await first.catch_up()
        await second.catch_up()
        assert (await one.get(id)).disposition == "recovering", "the last one to start decides"
        for _ in range(3):
            clock.advance(timedelta(minutes=3))
            for each in (first, second):
                await each.catch_up()
            assert (await one.get(id)).disposition == "recovering"
        clock.advance(timedelta(minutes=2))
        await first.catch_up()
        assert (await one.get(id)).disposition is None, "the other one may have stopped"
        assert one.telemetry.counts["RecoveryPoliciesDiffer"] == 1
        await policy(one, reason="handler_exception", then="hold", tries=0)
        await first.catch_up()
        assert (await one.get(id)).disposition == "held", "a changed policy is applied at once"


@pytest.mark.requirement("L3")
class TestGenerations:
    async def test_one_that_was_held_meanwhile_is_not_tried(
        self, work: Work, clock: VirtualClock
    ) -> None:
        await policy(work.app, after="10h")
        one, two = await die(work, "a", "b")
        clock.advance(SECOND)
        generations = work.app.store.generations
        generation = await generations.begin("v42", with_held=False)
        letters = await generations.untried(generation, Disposition.RECOVERING, (), 10)
        await work.app.dead_letters.hold(one, "wait")
        assert await generations.revive(generation, letters, 10.0, 10) == 1
        assert await work.states(one, two) == ["dead", "pending"]

    async def test_an_old_one_can_be_demanded_after_many_others(
        self, work: Work, clock: VirtualClock
    ) -> None:
        await policy(work.app, after="10h")
        await die(work, "a")
        for name in ["old", *(f"v{number}" for number in range(100))]:
            clock.advance(SECOND)
            await work.app.store.generations.begin(name, with_held=False)
        await work.app.recovery.replay("old")
        assert await run_until_idle(work.app) == 1

    @pytest.mark.parametrize("held", [False, True])
    async def test_a_worker_without_the_handler_leaves_dead_letters_to_others(
        self, deploy: Deploy, database_url: str, clock: VirtualClock, held: bool
    ) -> None:
        work = await deploy()
        await work.app.recovery.set("attempts_exhausted", tries=1, after="10h", then="hold")
        work.fails("a", 3)
        (id,) = await work.add("a", stream=None)
        await run_until_idle(work.app, within=HOUR)
        if held:
            await work.app.dead_letters.hold(id, "wait")
        clock.advance(SECOND)
        await work.app.recovery.replay("v42", held=held)
        await work.app.close()
        async with App(database_url, clock=clock, environment={}) as app:
            app.handler("else")(record)
            await run_until_idle(app)
        work = await deploy()
        assert await run_until_idle(work.app) == 1
        (generation,) = await work.app.recovery.generations()
        assert (generation.tried, generation.done_at) == (1, clock.now())

    async def test_it_ends_when_other_workers_have_applied_the_policies(
        self, postgres_url: str, clock: VirtualClock
    ) -> None:
        given: dict[str, Any] = {"clock": clock, "environment": {}, "generation": "v42"}
        async with App(postgres_url, clock=clock, environment={}) as app:
            (id,) = await die(Work(app), "a")
            await policy(app, after="10h")
            other = await app.store.workers.register("other", 3600.0, 1, ["work"], (), "v42")
        clock.advance(SECOND)
        async with App(postgres_url, **given) as app:
            app.handler("else")(record)
            await run_until_idle(app)
            (generation,) = await app.recovery.generations()
            assert generation.done_at is None
            await app.store.workers.end(other)
        async with App(postgres_url, **given) as app:
            work = Work(app)
            assert await run_until_idle(app) == 1
            assert await work.states(id) == ["completed"]

    async def test_it_does_not_wait_for_workers_of_other_namespaces(
        self, postgres_url: str, clock: VirtualClock
    ) -> None:
        given: dict[str, Any] = {"clock": clock, "environment": {}}
        async with App(postgres_url, namespace="other", **given) as app:
            await app.store.workers.register("old", 3600.0, 1, ["work"], (), "v41")
        async with App(postgres_url, **given) as app:
            await policy(app, after="10h")
            await die(Work(app), "a")
        clock.advance(SECOND)
        async with App(postgres_url, generation="v42", **given) as app:
            assert await run_until_idle(Work(app).app) == 1


async def record(delivery: Any) -> None:
    """A handler that does nothing."""


@pytest.mark.requirement("L3")
async def test_a_generation_does_not_wait_for_handlers_of_another_program(
    postgres_url: str, clock: VirtualClock
) -> None:
    given: dict[str, Any] = {"clock": clock, "environment": {}, "recovery_rate": 1000.0}
    async with App(postgres_url, **given) as app:
        work = Work(app)
        await policy(app, after="10h")
        mine, theirs = await die(work, "a"), await die(work, "b", target="other")
        await app.store.workers.register("theirs", 3600.0, 1, ["other"], (), "other-7")
    async with App(postgres_url, generation="v42", **given) as app:
        app.handler("work", retry=PLAN)(record)
        clock.advance(SECOND)
        assert await run_until_idle(app) == 1
        states = [(await app.get(each)).state for each in (*mine, *theirs)]
        assert states == ["completed", "dead"]
        (generation,) = await app.recovery.generations()
        assert generation.done_at is not None
