"""A new generation of the deployment tries matching dead letters once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duly import App, InvalidInput
from duly.testing import VirtualClock, run_until_idle
from tests.services.recovery.conftest import Deploy
from tests.services.recovery.test_policies import HOUR, die, policy
from tests.services.work import Work, blocked

pytestmark = pytest.mark.requirement("L3")


async def test_matching_ones_get_one_try_when_it_first_starts(
    deploy: Deploy, clock: VirtualClock
) -> None:
    work = await deploy()
    await policy(work.app, after="10h")
    ids = await die(work, *"abc")
    clock.advance(timedelta(seconds=1))
    work = await deploy(generation="v42")
    work.dies("b")
    assert await run_until_idle(work.app) == 3
    assert await work.states(*ids) == ["completed", "dead", "completed"]
    found = await work.app.get(ids[1])
    assert (found.generation, found.revivals, found.disposition) == ("v42", 0, "recovering")
    clock.advance(timedelta(seconds=1))
    work = await deploy(generation="v42")
    assert await run_until_idle(work.app) == 0
    (generation,) = await work.app.recovery.generations()
    assert (generation.name, generation.tried) == ("v42", 3)
    assert generation.done_at is not None
    work = await deploy(generation="v43")
    assert await run_until_idle(work.app) == 1
    assert await work.states(ids[1]) == ["completed"]


async def test_without_a_policy_nothing_is_tried(deploy: Deploy) -> None:
    work = await deploy()
    (id,) = await die(work, "a")
    work = await deploy(generation="v42")
    assert await run_until_idle(work.app) == 0
    await policy(work.app, reason="timeout_exceeded")
    work = await deploy(generation="v43")
    assert await run_until_idle(work.app) == 0
    assert await work.states(id) == ["dead"]


async def test_held_ones_only_if_asked_and_given_up_ones_never(
    deploy: Deploy, clock: VirtualClock
) -> None:
    work = await deploy()
    await policy(work.app)
    held, gone = await die(work, "a", "b")
    await work.app.dead_letters.hold(held, "wait")
    await work.app.dead_letters.give_up(gone, "no use")
    clock.advance(timedelta(seconds=1))
    work = await deploy(generation="v42")
    assert await run_until_idle(work.app) == 0
    work = await deploy(generation="v43", generation_held=True)
    assert await run_until_idle(work.app) == 1
    assert await work.states(held, gone) == ["completed", "dead"]


async def test_held_ones_without_a_policy_stay_held_and_the_generation_ends(
    deploy: Deploy, clock: VirtualClock
) -> None:
    work = await deploy()
    await policy(work.app, reason="timeout_exceeded")
    (id,) = await die(work, "a")
    await work.app.dead_letters.hold(id, "wait")
    clock.advance(timedelta(seconds=1))
    work = await deploy(generation="v42", generation_held=True)
    assert await run_until_idle(work.app) == 0
    assert (await work.app.get(id)).disposition == "held"
    (generation,) = await work.app.recovery.generations()
    assert (generation.tried, generation.done_at) == (0, clock.now())


async def test_one_that_was_held_after_its_last_try_is_held_again(
    deploy: Deploy, clock: VirtualClock
) -> None:
    work = await deploy()
    await policy(work.app, tries=1, after=0)
    (id,) = await die(work, "a", times=9)
    assert (await work.app.get(id)).disposition == "held"
    clock.advance(timedelta(seconds=1))
    work = await deploy(generation="v42", generation_held=True)
    work.dies("a")
    assert await run_until_idle(work.app) == 1
    found = await work.app.get(id)
    assert (found.disposition, found.revivals, found.generation) == ("held", 1, "v42")


async def test_a_stream_keeps_its_order(deploy: Deploy, clock: VirtualClock) -> None:
    work = await deploy()
    await policy(work.app, after="10h")
    await blocked(work)
    clock.advance(timedelta(seconds=1))
    work = await deploy(generation="v42")
    await run_until_idle(work.app)
    assert work.seen == ["a", "b", "c"]


async def test_it_waits_for_old_workers_that_have_the_handler(
    postgres_url: str, clock: VirtualClock
) -> None:
    """On PostgreSQL: with SQLite there is one worker at a time."""
    given = {"clock": clock, "environment": {}, "recovery_rate": 1000.0}
    async with App(postgres_url, generation="v42", **given) as app:  # type: ignore[arg-type]
        work, store = Work(app), app.store.workers
        await policy(app, after="10h")
        old = await store.register("old", 3600.0, 1, ["work"], (), "v41")
        (id,) = await die(work, "a")
        clock.advance(timedelta(seconds=1))
        await app.recovery.replay("v41")
        work.dies("a")
        assert await run_until_idle(app) == 1, "one that is demanded waits for nobody"
    async with App(postgres_url, generation="v43", **given) as app:  # type: ignore[arg-type]
        work = Work(app)
        clock.advance(timedelta(seconds=1))
        assert await run_until_idle(app) == 0
        assert app.telemetry.counts["GenerationWaits"] == 1
        await app.store.workers.end(old)
        await app.store.workers.register("another program", 3600.0, 1, ["elsewhere"])
        assert await run_until_idle(app) == 1
        assert await work.states(id) == ["completed"]


class TestReplay:
    async def test_a_dry_run_counts_and_changes_nothing(self, work: Work) -> None:
        await policy(work.app, after="10h")
        (one, _) = await die(work, "a", "b")
        await work.app.dead_letters.hold(one, "wait")
        recovery = work.app.recovery
        assert (await recovery.replay("v42", dry_run=True)).matching == 1
        assert (await recovery.replay("v42", held=True, dry_run=True)).matching == 2
        assert await recovery.generations() == []
        assert await run_until_idle(work.app) == 0

    async def test_workers_of_any_generation_do_it_once(
        self, work: Work, clock: VirtualClock
    ) -> None:
        await policy(work.app, after="10h")
        (id,) = await die(work, "a")
        clock.advance(timedelta(seconds=1))
        replay = await work.app.recovery.replay("v42")
        assert replay.matching == 1
        assert replay.generation is not None
        work.dies("a")
        assert await run_until_idle(work.app) == 1
        await work.app.recovery.replay("v42")
        assert await run_until_idle(work.app) == 0
        assert await work.states(id) == ["dead"]

    async def test_held_ones_can_be_asked_for_later(self, work: Work, clock: VirtualClock) -> None:
        await policy(work.app, after="10h")
        one, two = await die(work, "a", "b")
        await work.app.dead_letters.hold(one, "wait")
        clock.advance(timedelta(seconds=1))
        await work.app.recovery.replay("v42")
        assert await run_until_idle(work.app) == 1
        await work.app.recovery.replay("v42", held=True)
        assert await run_until_idle(work.app) == 1
        assert await work.states(one, two) == ["completed", "completed"]

    @pytest.mark.parametrize("name", ["", "two words", "x" * 101, "-v1", "v1\n", None])
    async def test_a_generation_is_one_word(self, app: App, name: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            await app.recovery.replay(name)
        assert refused.value.field == "generation"


async def test_the_rate_limits_a_generation_too(deploy: Deploy, clock: VirtualClock) -> None:
    work = await deploy()
    await policy(work.app, after="10h")
    await die(work, *range(5))
    clock.advance(timedelta(seconds=1))
    work = await deploy(generation="v42", recovery_rate=1.0)
    assert await run_until_idle(work.app) == 1
    assert await run_until_idle(work.app, within=HOUR) == 4
