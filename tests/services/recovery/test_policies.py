"""Dead letters that recover by policies: when, how often, and what happens then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, Conflict, DeadLetterFilter, InvalidInput, NotFound
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START
from tests.services.recovery.conftest import Deploy
from tests.services.work import NAME, Work, blocked

pytestmark = pytest.mark.requirement("L1")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


async def die(work: Work, *payloads: Any, times: int = 1, **options: Any) -> list[str]:
    """Make dead letters for validation failures that fail so often, outside of streams."""
    for each in payloads:
        for _ in range(times):
            work.dies(each)
    ids = await work.add(*payloads, **{"stream": None} | options)
    await run_until_idle(work.app)
    work.seen.clear()
    return ids


async def policy(app: App, **given: Any) -> None:
    fields = {"reason": "validation_failure", "tries": 2, "after": "10m", "then": "hold"} | given
    await app.recovery.set(fields.pop("reason"), **fields)


class TestTries:
    async def test_it_is_retried_after_each_cool_down_and_held_after_the_last_try(
        self, work: Work, clock: VirtualClock
    ) -> None:
        await policy(work.app)
        (id,) = await die(work, "a", times=9)
        found = await work.app.get(id)
        assert (found.disposition, found.revive_at) == ("recovering", START + 10 * MINUTE)
        clock.advance(10 * MINUTE - timedelta(seconds=1))
        assert await run_until_idle(work.app) == 0
        clock.advance(timedelta(seconds=1))
        assert await run_until_idle(work.app) == 1
        found = await work.app.get(id)
        assert (found.revivals, found.revive_at) == (1, START + 20 * MINUTE)
        assert await run_until_idle(work.app, within=30 * DAY) == 1
        found = await work.app.get(id)
        assert (found.state, found.disposition, found.revivals) == ("dead", "held", 2)
        assert found.disposition_note is not None
        assert "2 of 2 tries used up" in found.disposition_note
        moves = [
            (each.by, each.after, each.reason)
            for each in (await work.app.deliveries.detail(id)).transitions
        ]
        assert moves.count(("retried", "pending", "recovery")) == 2
        assert moves[-1] == ("held", "dead", "recovery")

    async def test_fail_gives_it_up(self, work: Work) -> None:
        await policy(work.app, tries=1, after=0, then="fail")
        (id,) = await die(work, "a", times=9)
        found = await work.app.get(id)
        assert (found.disposition, found.revivals) == ("given_up", 1)
        with pytest.raises(Conflict, match="given up for good"):
            await work.app.dead_letters.retry(id)

    async def test_one_that_completes_keeps_its_count(self, work: Work) -> None:
        await policy(work.app)
        (id,) = await die(work, "a")
        await run_until_idle(work.app, within=HOUR)
        found = await work.app.get(id)
        assert (found.state, found.revivals, found.disposition) == ("completed", 1, None)

    async def test_an_operators_retry_starts_the_count_again(self, work: Work) -> None:
        await policy(work.app, tries=1, after=0)
        (id,) = await die(work, "a", times=3)
        assert (await work.app.get(id)).disposition == "held"
        await work.app.dead_letters.retry(id)
        await run_until_idle(work.app)
        found = await work.app.get(id)
        assert (found.state, found.revivals) == ("completed", 1)

    async def test_a_rate_limits_how_many_come_back_at_once(
        self, deploy: Deploy, clock: VirtualClock
    ) -> None:
        work = await deploy(recovery_rate=2.0)
        app = work.app
        await policy(app, after=60)
        await die(work, *range(7))
        clock.advance(MINUTE)
        starts: list[Any] = []
        while len(work.seen) < 7:
            before = len(work.seen)
            await run_until_idle(app)
            starts.append(len(work.seen) - before)
            clock.advance(timedelta(seconds=0.5))
        assert starts == [2, 1, 1, 1, 1, 1]


class TestWhichPolicy:
    async def test_presets_are_off_unless_the_setting_turns_them_on(self, deploy: Deploy) -> None:
        assert await (await deploy()).app.recovery.policies() == []
        found = await (await deploy(recovery_policies="presets")).app.recovery.policies()
        assert [(each.reason, each.tries, each.after, each.then) for each in found] == [
            ("attempts_exhausted", 1, 6 * 3600, "hold"),
            ("poison_message", 5, 0, "hold"),
            ("throttled", 3, 1800, "hold"),
            ("transport_unavailable", 3, 3600, "hold"),
        ]

    async def test_exhausted_attempts_recover_but_a_refusal_does_not(
        self, deploy: Deploy, clock: VirtualClock
    ) -> None:
        app = (await deploy(recovery_policies="presets")).app

        @app.handler("exhausted", retry=duly.delays(1))
        async def exhausted(delivery: duly.Delivery[Any]) -> None:
            raise RuntimeError("no")

        @app.handler("final", retry=duly.delays(1))
        async def final(delivery: duly.Delivery[Any]) -> None:
            raise duly.Fail("never", retry=False)

        ids = [(await app.deliver(each)).id for each in ("exhausted", "final")]
        await run_until_idle(app, within=MINUTE)
        found = [(await app.get(each)).disposition for each in ids]
        assert found == ["recovering", None]

    @pytest.mark.parametrize(
        ("reason", "disposition"),
        [
            ("transport_unavailable", "recovering"),
            ("validation_failure", None),
            ("serialization_error", None),
        ],
    )
    async def test_each_reason_by_its_preset(
        self, deploy: Deploy, reason: str, disposition: str | None
    ) -> None:
        app = (await deploy(recovery_policies="presets")).app

        @app.handler("bad", retry=duly.no_retry)
        async def bad(delivery: duly.Delivery[Any]) -> None:
            raise duly.Fail("no", reason=reason)

        id = (await app.deliver("bad")).id
        await run_until_idle(app)
        assert (await app.get(id)).disposition == disposition

    async def test_one_for_a_target_counts_before_one_for_all(self, work: Work) -> None:
        await policy(work.app)
        await policy(work.app, tries=0, then=None, target="other")
        (here,) = await die(work, "a")
        (there,) = await die(work, "b", target="other")
        assert (await work.app.get(here)).disposition == "recovering"
        assert (await work.app.get(there)).disposition is None

    async def test_a_change_applies_to_dead_letters_of_before(
        self, work: Work, clock: VirtualClock
    ) -> None:
        ids = await die(work, *range(450))
        assert {each.disposition for each in await work.app.dead_letters.list(limit=1000)} == {None}
        await policy(work.app, after="1h")
        await run_until_idle(work.app)
        count = work.app.dead_letters.count
        assert await count(DeadLetterFilter(disposition="recovering")) == len(ids)  # type: ignore[arg-type]
        await work.app.recovery.remove("validation_failure")
        await run_until_idle(work.app)
        assert await count(DeadLetterFilter(disposition="recovering")) == 0  # type: ignore[arg-type]
        clock.advance(timedelta(hours=2))
        assert await run_until_idle(work.app) == 0

    async def test_one_that_an_operator_made_dead_stays_dead(self, work: Work) -> None:
        await policy(work.app, reason="unknown", after=0)
        work.fails("a")
        (id,) = await work.add("a")
        await run_until_idle(work.app)
        await work.app.streams.dead_letter_head(NAME)
        await run_until_idle(work.app, within=DAY)
        assert (await work.app.get(id)).disposition is None


class TestStreams:
    async def test_a_revived_head_comes_first_and_its_followers_after_it(self, work: Work) -> None:
        await policy(work.app)
        await blocked(work)
        work.seen.clear()
        await run_until_idle(work.app, within=HOUR)
        assert work.seen == ["a", "b", "c"]

    async def test_giving_up_lets_the_followers_proceed(self, work: Work) -> None:
        await policy(work.app, tries=0, then="fail")
        ids = await blocked(work)
        await run_until_idle(work.app)
        assert await work.states(*ids) == ["dead", "completed", "completed"]
        assert (await work.app.get(ids[0])).disposition == "given_up"

    async def test_holding_keeps_the_stream_blocked(self, work: Work) -> None:
        await policy(work.app, tries=0, then="hold")
        ids = await blocked(work)
        await run_until_idle(work.app)
        assert await work.states(*ids) == ["dead", "pending", "pending"]


class TestBadInput:
    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({"reason": "bad luck"}, "reason"),
            ({"tries": -1}, "tries"),
            ({"tries": 101}, "tries"),
            ({"tries": True}, "tries"),
            ({"tries": float("inf")}, "tries"),
            ({"then": None}, "then"),
            ({"then": "retry"}, "then"),
            ({"after": -1}, "after"),
            ({"after": "2 fortnights"}, "after"),
            ({"after": "400d"}, "after"),
            ({"target": ""}, "target"),
        ],
    )
    async def test_it_is_refused_with_the_field(
        self, app: App, given: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(InvalidInput) as refused:
            await policy(app, **given)
        assert refused.value.field == field
        assert await app.recovery.policies() == []

    async def test_removing_one_that_is_not_there(self, app: App) -> None:
        with pytest.raises(NotFound, match="recovery policy"):
            await app.recovery.remove("unknown")
