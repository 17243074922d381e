"""Dead letters from Python: found, grouped, retried, edited, discarded, and foreseen."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, Conflict, DeadLetterFilter, InvalidInput, NotFound
from duly.domain.dead_letters import place
from duly.domain.deliveries.fingerprints import fingerprint
from duly.failpoints import FailpointRaised, arm
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START
from tests.services.work import NAME, Work, running, until_set

pytestmark = pytest.mark.requirement("F4")
NOWHERE = "019b0000-0000-7000-8000-000000000000"


async def die(work: Work, *payloads: Any, **options: Any) -> list[str]:
    """Make dead letters, outside of streams by default; returns their ids."""
    for each in payloads:
        work.dies(each)
    ids = await work.add(*payloads, **{"stream": None} | options)
    await run_until_idle(work.app)
    work.seen.clear()
    return ids


async def all_of(progress: Any) -> list[tuple[int, int]]:
    return [(each.done, each.total) async for each in progress]


class TestFinding:
    async def test_the_latest_comes_first_and_pages_continue_from_there(
        self, work: Work, clock: VirtualClock
    ) -> None:
        ids = []
        for each in "abc":
            ids += await die(work, each)
            clock.advance(1)
        dead = work.app.dead_letters
        first = await dead.list(limit=2)
        assert [each.id for each in first] == [ids[2], ids[1]]
        assert [each.id for each in await dead.list(before=place(first[-1]))] == [ids[0]]
        await dead.retry(ids[1])
        assert [each.id for each in await dead.list(before=place(first[-1]))] == [ids[0]]
        assert first[0].dead_at == START + timedelta(seconds=2)
        assert first[0].fingerprint == fingerprint("validation_failure", first[0].error)

    async def test_each_field_of_a_filter_narrows_the_result(
        self, work: Work, clock: VirtualClock
    ) -> None:
        app = work.app
        one = (await die(work, "one", key="order-1", tags=["vip"]))[0]
        clock.advance(60)
        two = (await die(work, "two", target="other", stream=NAME))[0]
        clock.advance(60)
        work.failing["three"] = [RuntimeError("away")] * 3
        await app.schedule("hourly", duly.every("1h"), "work", "three")
        await run_until_idle(app, within=3800)
        (three,) = await app.list(state="dead", limit=1)
        fingerprints = {each.id: each.fingerprint for each in await app.dead_letters.list()}
        cases: list[tuple[dict[str, Any], set[str]]] = [
            ({}, {one, two, three.id}),
            ({"reason": "handler_exception"}, {three.id}),
            ({"reason": "validation_failure"}, {one, two}),
            ({"fingerprint": fingerprints[one]}, {one}),
            ({"target": "other"}, {two}),
            ({"target": "unknown"}, set()),
            ({"stream": NAME}, {two}),
            ({"schedule": "hourly"}, {three.id}),
            ({"tag": "vip"}, {one}),
            ({"text": "bad t"}, {two}),
            ({"text": "order-1"}, {one}),
            ({"text": '"three"'}, {three.id}),
            ({"since": START + timedelta(seconds=60)}, {two, three.id}),
            ({"until": START + timedelta(seconds=60)}, {one, two}),
            ({"ids": (one, three.id, NOWHERE)}, {one, three.id}),
            ({"reason": "validation_failure", "stream": NAME}, {two}),
        ]
        for given, wanted in cases:
            found = await app.dead_letters.list(DeadLetterFilter(**given))
            assert {each.id for each in found} == wanted, given
            assert await app.dead_letters.count(DeadLetterFilter(**given)) == len(wanted), given

    async def test_similar_errors_are_one_group(self, work: Work, clock: VirtualClock) -> None:
        for number in (17, 18, 19):
            work.failing[number] = [duly.ValidationFailure(f"order {number} of 'bob' is unknown")]
            await work.add(number, stream=None, target="other" if number == 18 else "work")
            await run_until_idle(work.app)
            clock.advance(1)
        work.failing["x"] = [duly.ValidationFailure("no such currency")]
        await work.add("x", stream=None)
        await run_until_idle(work.app)
        orders, currency = await work.app.dead_letters.groups()
        assert (orders.count, orders.targets) == (3, ["other", "work"])
        assert orders.reason == "validation_failure"
        assert "order 19 of 'bob' is unknown" in (orders.error or "")
        assert (orders.first_at, orders.last_at) == (START, START + timedelta(seconds=2))
        assert currency.count == 1
        found = await work.app.dead_letters.list(DeadLetterFilter(fingerprint=orders.fingerprint))
        assert len(found) == 3
        (only,) = await work.app.dead_letters.groups(DeadLetterFilter(target="other"))
        assert (only.count, only.fingerprint) == (1, orders.fingerprint)

    async def test_another_namespace_is_separate(
        self, work: Work, database_url: str, clock: VirtualClock
    ) -> None:
        (id,) = await die(work, "a")
        async with App(database_url, namespace="theirs", clock=clock, environment={}) as theirs:
            assert await theirs.dead_letters.list() == []
            assert await theirs.dead_letters.groups() == []
            assert await all_of(theirs.dead_letters.retry_all()) == []
            for call in (theirs.dead_letters.retry(id), theirs.dead_letters.discard(id, "why")):
                with pytest.raises(NotFound):
                    await call
        assert await work.states(id) == ["dead"]


class TestRetryingOne:
    async def test_a_retried_one_gets_all_its_attempts_back(self, work: Work) -> None:
        (id,) = await die(work, "a")
        retried = await work.app.dead_letters.retry(id)
        assert (retried.state, retried.attempt) == ("pending", 0)
        assert (retried.dead_at, retried.fingerprint) == (None, None)
        work.fails("a", 2)
        await run_until_idle(work.app, within=600)
        assert await work.states(id) == ["completed"]
        outcomes = [each.outcome for each in await work.app.deliveries.history(id)]
        assert outcomes == ["dead", "retried", "retry", "retry", "completed"]

    @pytest.mark.parametrize("stream", [None, NAME])
    async def test_one_that_keeps_its_attempts_gets_exactly_one_more(
        self, work: Work, stream: str | None
    ) -> None:
        work.fails("a", 9)
        (id,) = await work.add("a", stream=stream)
        await run_until_idle(work.app, within=600)
        assert await work.states(id) == ["dead"]
        assert len(work.seen) == 3
        retried = await work.app.dead_letters.retry(id, reset_attempts=False)
        assert (retried.state, retried.attempt) == ("pending", 3)
        await run_until_idle(work.app, within=600)
        assert (await work.app.get(id)).attempt == 4
        assert (await work.states(id), len(work.seen)) == (["dead"], 4)

    async def test_a_retry_is_in_the_audit_trail(self, work: Work) -> None:
        (id,) = await die(work, "a")
        work.app.dead_letters.actor = "kim"
        await work.app.dead_letters.retry(id)
        (latest, *_) = await work.app.audit.list()
        assert (latest.actor, latest.action, latest.subject) == ("kim", "dead_letter.retried", id)

    async def test_a_delivery_that_is_not_dead_is_refused_with_its_state_and_a_remedy(
        self, live: Work
    ) -> None:
        proceed = live.waits("a")
        dead = live.app.dead_letters
        (waiting,) = await live.add("w", stream=None, after=3600)
        async with running(live.app):
            (id,) = await live.add("a", stream=None)
            await until_set(live.began["a"])
            for call in (dead.retry(id), dead.edit(id, 1), dead.discard(id, "why")):
                with pytest.raises(
                    Conflict, match=r"is processing; only a dead.*wait until it has"
                ):
                    await call
            proceed.set()
            await live.until(id, "completed")
        for call in (dead.retry(id), dead.edit(id, 1), dead.discard(id, "why")):
            with pytest.raises(Conflict, match=r"is completed; only a dead letter.*delivered anew"):
                await call
        with pytest.raises(Conflict, match=f"is pending; .*duly deliveries cancel {waiting}"):
            await dead.retry(waiting)
        assert live.seen == ["a"]

    async def test_an_unknown_delivery_is_not_found(self, work: Work) -> None:
        with pytest.raises(NotFound):
            await work.app.dead_letters.retry(NOWHERE)


class TestEditing:
    @pytest.mark.parametrize("stream", [None, NAME])
    async def test_an_edited_one_is_retried_with_the_new_payload(
        self, work: Work, stream: str | None
    ) -> None:
        (id,) = await die(work, "a", stream=stream)
        work.app.dead_letters.actor = "kim"
        edited = await work.app.dead_letters.edit(id, "fixed")
        assert (edited.state, edited.payload) == ("pending", "fixed")
        await run_until_idle(work.app)
        assert (work.seen, await work.states(id)) == (["fixed"], ["completed"])
        history = [(each.outcome, each.answer) for each in await work.app.deliveries.history(id)]
        assert ("edited", {"payload": "a"}) in history
        (latest, *_) = await work.app.audit.list()
        assert (latest.actor, latest.action, latest.subject) == ("kim", "dead_letter.edited", id)
        assert latest.detail["before"]["bytes"] == 3
        assert latest.detail["after"]["bytes"] == 7

    async def test_a_payload_is_checked_like_a_new_one(self, work: Work) -> None:
        (id,) = await die(work, "a")
        for bad in (b"{", object(), float("nan"), "x" * 300_000):
            with pytest.raises(InvalidInput, match="payload"):
                await work.app.dead_letters.edit(id, bad)
        assert (await work.app.get(id)).payload == "a"


class TestDiscarding:
    async def test_a_discarded_one_is_cancelled_with_a_note(self, work: Work) -> None:
        (id,) = await die(work, "a")
        gone = await work.app.dead_letters.discard(id, "the order was withdrawn")
        assert (gone.state, gone.reason) == ("cancelled", "validation_failure")
        (_, last) = await work.app.deliveries.history(id)
        assert (last.outcome, last.error) == ("discarded", "the order was withdrawn")
        assert (last.before, last.after) == ("dead", "cancelled")
        (latest, *_) = await work.app.audit.list()
        assert (latest.action, latest.detail) == (
            "dead_letter.discarded",
            {"note": "the order was withdrawn"},
        )
        with pytest.raises(Conflict, match=r"is cancelled; .*given up for good"):
            await work.app.dead_letters.retry(id)
        assert await work.app.dead_letters.count() == 0

    async def test_a_stream_that_it_blocked_continues(self, work: Work) -> None:
        work.dies("a")
        ids = await work.add("a", "b", "c")
        await run_until_idle(work.app)
        assert (await work.stream()).state == "blocked"
        await work.app.dead_letters.discard(ids[0], "never mind")
        await run_until_idle(work.app)
        assert work.seen == ["a", "b", "c"]
        assert await work.states(*ids) == ["cancelled", "completed", "completed"]
        assert (await work.stream()).state == "idle"

    async def test_a_paused_stream_stays_paused(self, work: Work) -> None:
        work.dies("a")
        ids = await work.add("a", "b")
        await run_until_idle(work.app)
        await work.app.streams.pause(NAME)
        await work.app.dead_letters.discard(ids[0], "never mind")
        assert (await work.stream()).state == "paused"
        assert await run_until_idle(work.app) == 0

    async def test_a_dead_letter_that_left_its_stream_does_not_block_it(self, work: Work) -> None:
        work.dies("a")
        ids = await work.add("a", "b", on_failure="release")
        await run_until_idle(work.app)
        await work.app.dead_letters.discard(ids[0], "never mind")
        assert await work.states(*ids) == ["cancelled", "completed"]

    async def test_all_matching_ones_are_discarded_and_no_others(self, work: Work) -> None:
        gone = await die(work, *range(5), tags=["old"])
        gone += await die(work, "s", stream="s", tags=["old"])
        gone += await die(work, "r", stream="r", on_failure="release", tags=["old"])
        stay = await die(work, "stay")
        progress = await all_of(
            work.app.dead_letters.discard_all(DeadLetterFilter(tag="old"), "too old")
        )
        assert progress[-1] == (7, 7)
        assert await work.states(*gone) == ["cancelled"] * 7
        assert await work.states(*stay) == ["dead"]
        assert (await work.app.streams.get("s")).state == "idle"


class TestRetryingMany:
    async def test_all_matching_ones_are_retried_and_no_others(self, work: Work) -> None:
        ids = await die(work, *range(7), tags=["now"])
        (stay,) = await die(work, "stay")
        wanted = DeadLetterFilter(tag="now")
        assert await work.app.dead_letters.count(wanted) == 7
        assert await work.states(*ids) == ["dead"] * 7, "counting changes nothing"
        assert await all_of(work.app.dead_letters.retry_all(wanted)) == [(7, 7)]
        await run_until_idle(work.app)
        assert sorted(work.seen) == list(range(7))
        assert await work.states(*ids, stay) == ["completed"] * 7 + ["dead"]
        (latest, *_) = await work.app.audit.list()
        assert (latest.action, latest.detail["deliveries"]) == ("dead_letters.retried", 7)
        assert latest.detail["filter"]["tag"] == "now"

    async def test_a_rate_limit_is_kept(self, database_url: str) -> None:
        clock = VirtualClock(START, sleeping_moves_it=True)
        async with App(database_url, clock=clock, environment={}) as app:
            work = Work(app)
            await die(work, *range(10))
            began = clock.now()
            async for progress in app.dead_letters.retry_all(rate=4.0):
                passed = (clock.now() - began).total_seconds()
                assert progress.done <= 4 + passed * 4
            assert (clock.now() - began).total_seconds() >= 2.0

    async def test_those_that_die_again_meanwhile_are_not_retried_twice(
        self, work: Work, clock: VirtualClock
    ) -> None:
        ids = await die(work, *range(6))
        clock.advance(1)
        tries = 0
        async for progress in work.app.dead_letters.retry_all(rate=2.0):
            for each in range(6):
                work.dies(each)
            tries += await run_until_idle(work.app, within=1)
            assert progress.total == 6
        assert tries == 6
        assert await work.states(*ids) == ["dead"] * 6
        clock.advance(10)
        assert await work.app.dead_letters.count() == 6

    async def test_an_earlier_one_of_a_stream_runs_first_whenever_it_died(
        self, work: Work, clock: VirtualClock
    ) -> None:
        work.fails("a", 3)
        for each in "bc":
            work.dies(each)
        ids = await work.add("a", "b", "c", on_failure="release")
        await run_until_idle(work.app, within=600)
        assert await work.states(*ids) == ["dead"] * 3
        deaths = [(await work.app.get(id)).dead_at for id in ids]
        assert deaths[0] > deaths[2] >= deaths[1], "the first died last"  # type: ignore[operator]
        work.seen.clear()
        async for _ in work.app.dead_letters.retry_all(rate=1.0):
            await run_until_idle(work.app)
        assert work.seen == ["a", "b", "c"]

    async def test_several_by_id_run_in_the_order_of_their_stream(self, work: Work) -> None:
        for each in "abc":
            work.dies(each)
        ids = await work.add("a", "b", "c", on_failure="release")
        await run_until_idle(work.app)
        work.seen.clear()
        wanted = DeadLetterFilter(ids=(ids[2], ids[0]))
        assert await all_of(work.app.dead_letters.retry_all(wanted)) == [(2, 2)]
        await run_until_idle(work.app)
        assert work.seen == ["a", "c"]
        assert await work.states(*ids) == ["completed", "dead", "completed"]

    async def test_a_blocked_stream_continues_from_its_head(self, work: Work) -> None:
        for name in ("s", "t"):
            work.dies(f"{name}1")
            await work.add(*(f"{name}{n}" for n in range(1, 4)), stream=name)
        await run_until_idle(work.app)
        work.seen.clear()
        assert await all_of(work.app.dead_letters.retry_all()) == [(2, 2)]
        await run_until_idle(work.app)
        for name in ("s", "t"):
            assert [each for each in work.seen if each[0] == name] == [
                f"{name}1",
                f"{name}2",
                f"{name}3",
            ]

    async def test_one_before_a_dead_head_that_does_not_match_waits_for_it(
        self, work: Work
    ) -> None:
        work.dies("a")
        ids = await work.add("a", on_failure="release")
        work.dies("b")
        ids += await work.add("b", "c")
        await run_until_idle(work.app)
        assert (await work.stream()).state == "blocked"
        work.seen.clear()
        wanted = DeadLetterFilter(ids=(ids[0],))
        assert await all_of(work.app.dead_letters.retry_all(wanted)) == [(1, 1)]
        await run_until_idle(work.app)
        assert work.seen == []
        await work.app.dead_letters.retry(ids[1])
        await run_until_idle(work.app)
        assert work.seen == ["a", "b", "c"]

    async def test_interrupted_and_repeated_each_is_retried_once(
        self, work: Work, clock: VirtualClock
    ) -> None:
        payloads = [str(n) for n in range(8)]
        await die(work, *payloads)
        for name in ("s", "t"):
            members = [f"{name}{n}" for n in range(4)]
            await die(work, *members, stream=name, on_failure="release")
            payloads += members
        began, crashes = clock.advance(1), 0
        clock.advance(1)
        wanted = DeadLetterFilter(until=began)
        while await work.app.dead_letters.count(wanted):
            arm("retry.before=raise@2" if crashes % 2 else "retry.after=raise@2")
            with contextlib.suppress(FailpointRaised):
                async for _ in work.app.dead_letters.retry_all(wanted, rate=3.0):
                    pass
                crashes -= 1
            crashes += 1
            arm("")
            for each in payloads:
                work.dies(each)
            await run_until_idle(work.app, within=2)
            assert crashes < 30
        assert crashes > 3
        assert sorted(work.seen) == sorted(payloads)
        for name in ("s", "t"):
            executed = [each for each in work.seen if each[0] == name]
            assert executed == sorted(executed)

    async def test_concurrent_retries_move_each_once(self, work: Work) -> None:
        ids = await die(work, *range(20))
        done = await asyncio.gather(
            *(all_of(work.app.dead_letters.retry_all(rate=100_000.0)) for _ in range(3))
        )
        assert sum(each[-1][0] for each in done if each) == 20
        await run_until_idle(work.app, within=1)
        assert sorted(work.seen) == list(range(20))
        assert await work.states(*ids) == ["completed"] * 20


class TestPoison:
    async def test_a_delivery_before_its_last_attempt_is_listed(self, work: Work) -> None:
        work.fails("a", 3)
        work.fails("b", 1)
        (a, _) = await work.add("a", "b", stream=None)
        await run_until_idle(work.app)
        assert await work.app.dead_letters.poison_candidates(last_attempts=True) == []
        await run_until_idle(work.app, within=61)
        (found,) = await work.app.dead_letters.poison_candidates(last_attempts=True)
        assert (found.id, found.why) == (a, "its next attempt is the last of 3")
        await run_until_idle(work.app, within=61)
        assert await work.states(a) == ["dead"]
        assert await work.app.dead_letters.poison_candidates(last_attempts=True) == []

    async def test_a_deliverys_own_plan_counts(self, work: Work) -> None:
        work.fails("a", 1)
        await work.add("a", stream=None, retry=duly.delays(60))
        await run_until_idle(work.app)
        (found,) = await work.app.dead_letters.poison_candidates(last_attempts=True)
        assert found.why == "its next attempt is the last of 2"


BAD: list[tuple[str, dict[str, Any]]] = [
    ("reason", {"reason": ""}),
    ("target", {"target": 7}),
    ("target", {"target": "a b"}),
    ("stream", {"stream": "x" * 300}),
    ("schedule", {"schedule": ""}),
    ("tag", {"tag": "a\nb"}),
    ("text", {"text": "x" * 1001}),
    ("since", {"since": START.replace(tzinfo=None)}),
    ("until", {"until": "yesterday"}),
    ("id", {"ids": ("7",)}),
    ("ids", {"ids": "7"}),
]


@pytest.mark.parametrize(("field", "given"), BAD)
async def test_a_bad_filter_is_refused_with_its_field(
    small_app: App, field: str, given: dict[str, Any]
) -> None:
    dead, wanted = small_app.dead_letters, DeadLetterFilter(**given)
    for call in (dead.list(wanted), dead.groups(wanted), dead.count(wanted)):
        with pytest.raises(InvalidInput) as caught:
            await call
        assert caught.value.field == field
    with pytest.raises(InvalidInput):
        await all_of(dead.retry_all(wanted))


async def test_other_bad_input_is_refused_with_its_field(small_app: App) -> None:
    dead = small_app.dead_letters
    for field, call in (
        ("before", dead.list(before="x")),
        ("before", dead.list(before=f"2026-01-01/{NOWHERE}")),
        ("limit", dead.list(limit=0)),
        ("limit", dead.poison_candidates(limit=0)),
        ("filter", dead.count("all")),  # type: ignore[arg-type]
        ("id", dead.retry("x")),
        ("id", dead.edit("x", 1)),
        ("note", dead.discard(NOWHERE, "")),
        ("rate", all_of(dead.retry_all(rate=0))),
        ("note", all_of(dead.discard_all(DeadLetterFilter(), "x" * 1001))),
    ):
        with pytest.raises(InvalidInput) as caught:
            await call
        assert caught.value.field == field
