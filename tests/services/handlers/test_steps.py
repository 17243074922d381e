"""Steps: done once, kept through failures, recorded at once or with the outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.domain.deliveries.identifiers import token
from duly.failpoints import arm
from duly.stores.deliveries.maintenance import BEGINNING
from duly.testing import VirtualClock, run_until_idle
from tests.stores.store_probe import StoreProbe

QUICK = duly.delays(1, 1, 1, 1)
HOUR = 3600


async def names(app: App, id: str) -> list[str]:
    return [each.name for each in await app.steps(id)]


async def run_to_end(app: App, *, within: float | None = HOUR) -> str:
    """Deliver to `work` and run until it ends; returns the id."""
    accepted = await app.deliver("work", {"order": 7})
    await run_until_idle(app, within=within)
    return accepted.id


@pytest.mark.requirement("F8")
async def test_a_step_that_is_done_is_skipped_and_returns_its_result(app: App) -> None:
    ran: list[str] = []
    results: list[Any] = []

    @app.handler("work", retry=QUICK)
    async def work(delivery: Delivery[Any]) -> None:
        async with delivery.step("charge") as step:
            if not step.done:
                ran.append("charge")
                step.keep({"receipt": (1, None, "é\0")})
        results.append(step.result)
        await delivery.do("ship", ran.append, "ship")
        if delivery.attempt < 3:
            raise ValueError("not yet")

    id = await run_to_end(app)
    assert (await app.get(id)).state == "completed"
    assert ran == ["charge", "ship"]
    assert results == [{"receipt": [1, None, "é\0"]}] * 3
    charge, ship = await app.steps(id)
    assert (charge.name, charge.attempt, ship.result) == ("charge", 1, None)


@pytest.mark.requirement("F8")
async def test_a_failed_step_is_not_recorded_and_earlier_ones_are_kept(app: App) -> None:
    ran: list[str] = []

    def flaky(attempt: int) -> int:
        ran.append(f"flaky {attempt}")
        if attempt == 1:
            raise ValueError("not yet")
        return attempt

    @app.handler("work", retry=QUICK)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.do("first", ran.append, "first")
        assert await delivery.do("flaky", flaky, delivery.attempt) == 2
        ran.append("last")

    id = await run_to_end(app)
    assert ran == ["first", "flaky 1", "flaky 2", "last"]
    assert [(each.name, each.attempt) for each in await app.steps(id)] == [
        ("first", 1),
        ("flaky", 2),
    ]


@pytest.mark.requirement("F8")
async def test_a_step_is_recorded_while_its_attempt_runs(app: App) -> None:
    seen: list[list[str]] = []

    @app.handler("work", retry=QUICK)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.do("now", list)
        seen.append(await names(app, delivery.id))
        await delivery.do("late", list, late=True)
        seen.append(await names(app, delivery.id))

    id = await run_to_end(app)
    assert seen == [["now"], ["now"]]
    assert sorted(await names(app, id)) == ["late", "now"]


@pytest.mark.requirement("F8")
@pytest.mark.parametrize("stream", [None, "orders"])
@pytest.mark.parametrize("how", ["completed", "retried", "dead"])
async def test_a_late_step_is_recorded_with_every_outcome(
    app: App, how: str, stream: str | None
) -> None:
    ran: list[int] = []

    @app.handler("work", retry=QUICK)
    async def work(delivery: Delivery[Any]) -> None:
        assert await delivery.do("late", lambda: ran.append(1) or "kept", late=True) == "kept"
        if how == "dead" or (how == "retried" and delivery.attempt == 1):
            raise duly.Fail("no", retry=how == "retried" and None)

    policy = None if stream is None else "release"
    accepted = [await app.deliver("work", n, stream=stream, on_failure=policy) for n in range(2)]
    await run_until_idle(app, within=HOUR)
    assert ran == [1, 1]
    for each in accepted:
        assert (await app.get(each.id)).state == ("dead" if how == "dead" else "completed")
        (step,) = await app.steps(each.id)
        assert step.result == "kept"


@pytest.mark.requirement("F8")
async def test_steps_are_kept_when_a_dead_letter_is_retried(app: App) -> None:
    ran: list[int] = []
    failures = iter([ValueError("no")])

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.do("once", ran.append, 1)
        for each in failures:
            raise each

    id = await run_to_end(app)
    assert (await app.get(id)).state == "dead"
    await app.retry(id)
    await run_until_idle(app)
    assert (await app.get(id)).state == "completed"
    assert ran == [1]


@pytest.mark.requirement("F8")
async def test_steps_are_kept_when_an_attempt_is_handed_back(app: App) -> None:
    ran: list[int] = []
    stops = iter([1])

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.do("once", ran.append, 1)
        await delivery.do("late", ran.append, 2, late=True)
        for _ in stops:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.Event().wait()

    id = await run_to_end(app, within=None)
    await run_until_idle(app)
    found = await app.get(id)
    assert (found.state, found.attempt) == ("completed", 1)
    assert ran == [1, 2]


@pytest.mark.requirement("F8")
@pytest.mark.parametrize("ends", ["completed", "failed"])
async def test_a_step_in_a_transaction_is_committed_with_it(app: App, ends: str) -> None:
    ran: list[str] = []
    probe = StoreProbe(app.store, app.clock)  # type: ignore[arg-type]
    await probe.sql("create table effects (name text)")

    @app.handler("work", retry=QUICK)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.do("before", ran.append, "before")
        async with delivery.step("inside") as step:
            if not step.done:
                ran.append("inside")
                await delivery.transaction.execute("insert into effects values ('inside')")
        assert await names(app, delivery.id) == ["before"]
        if ends == "failed" and delivery.attempt == 1:
            raise ValueError("no")

    id = await run_to_end(app)
    assert ran == ["before", "inside"] + (["inside"] if ends == "failed" else [])
    assert len(await probe.sql("select * from effects")) == 1
    assert sorted(await names(app, id)) == ["before", "inside"]


@pytest.mark.requirement("F8")
async def test_a_step_and_a_transaction_that_begin_concurrently_wait_for_each_other(
    app: App,
) -> None:
    @app.handler("work", retry=duly.no_retry, timeout=5)
    async def work(delivery: Delivery[Any]) -> None:
        # Steps are read once; the next ones run while the transaction waits for the store.
        await delivery.do("first", list)
        await asyncio.gather(
            delivery.transaction.execute("select 1"),
            *(delivery.do(f"step {n}", list) for n in range(4)),
        )

    id = await run_to_end(app)
    assert (await app.get(id)).state == "completed"
    assert len(await app.steps(id)) == 5


@pytest.mark.requirement("F8")
async def test_sync_handlers_have_steps_too(app: App) -> None:
    ran: list[Any] = []

    async def on_the_loop() -> str:
        return threading.current_thread().name

    @app.handler("work", retry=QUICK)
    def work(delivery: Delivery[Any]) -> None:
        with delivery.step("block") as step:
            if not step.done:
                ran.append(threading.current_thread().name)
                step.keep([1])
        assert step.result == [1]
        ran.append(delivery.do("call", threading.current_thread().__class__.__name__.lower))
        assert delivery.do("loop", on_the_loop) == threading.main_thread().name
        if delivery.attempt == 1:
            raise ValueError("not yet")

    id = await run_to_end(app)
    assert (await app.get(id)).state == "completed"
    assert ran == ["duly-handler", "thread", "thread"]
    assert await names(app, id) == ["block", "call", "loop"]


@pytest.mark.requirement("F8")
async def test_a_handlers_own_event_loop_is_refused(app: App) -> None:
    @app.handler("work", retry=duly.no_retry)
    def work(delivery: Delivery[Any]) -> None:
        async def inner() -> None:
            await delivery.do("step", list)

        asyncio.run(inner())

    id = await run_to_end(app)
    assert "this event loop is not the one" in str((await app.get(id)).error)
    assert await names(app, id) == []


@pytest.mark.requirement("F8")
async def test_concurrent_tasks_of_one_attempt_can_have_steps(app: App) -> None:
    meeting = asyncio.Barrier(3)

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await asyncio.gather(*(delivery.do(f"step {n}", meeting.wait) for n in range(3)))

    id = await run_to_end(app)
    assert (await app.get(id)).state == "completed"
    assert sorted(await names(app, id)) == ["step 0", "step 1", "step 2"]


@pytest.mark.requirement("F8")
async def test_a_repeated_step_is_done_and_a_nested_one_of_the_same_name_is_refused(
    small_app: App,
) -> None:
    ran: list[int] = []

    @small_app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        assert await delivery.do("twice", lambda: ran.append(1) or "first") == "first"
        assert await delivery.do("twice", lambda: ran.append(2) or "second") == "first"
        async with delivery.step("outer") as step:
            assert not step.done
            await delivery.do("outer", ran.append, 3)

    id = await run_to_end(small_app)
    found = await small_app.get(id)
    assert ran == [1]
    assert "already runs" in str(found.error)
    assert await names(small_app, id) == ["twice"]


async def _without_check(delivery: Delivery[Any]) -> None:
    async with delivery.step("charge"):
        pass


async def _sync_block(delivery: Delivery[Any]) -> None:
    with delivery.step("charge"):
        pass


async def _not_started(delivery: Delivery[Any]) -> None:
    assert not delivery.step("charge").done


async def _many(delivery: Delivery[Any]) -> None:
    for n in range(1001):
        await delivery.do(f"step {n}", list, late=True)


@pytest.mark.requirement("F8")
@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (lambda d: d.do("", list), "step: it has 0 bytes; give 1 to 100"),
        (lambda d: d.do("é" * 51, list), "step: it has 102 bytes"),
        (lambda d: d.do("a\nb", list), "step: it holds characters that cannot be printed"),
        (lambda d: d.do(7, list), "step: 7 is not text"),
        (lambda d: d.do("big", "x".__mul__, 64 * 1024), "result: 65538 bytes are more than"),
        (lambda d: d.do("set", object), "result: it cannot be written as JSON"),
        (lambda d: d.do("nan", float, "nan"), "result: NaN and infinity are not JSON"),
        (_without_check, "if not step.done"),
        (_sync_block, "async with"),
        (_not_started, "is not begun"),
        (_many, "step: a delivery has at most 1000 steps"),
    ],
)
async def test_an_invalid_step_is_an_error(
    small_app: App, handler: Callable[[Any], Any], message: str
) -> None:
    @small_app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await handler(delivery)

    id = await run_to_end(small_app)
    found = await small_app.get(id)
    assert found.state == "dead"
    assert message in str(found.error)
    recorded = 1000 if handler is _many else int(handler is _without_check)
    assert len(await small_app.steps(id)) == recorded


@pytest.mark.requirement("F8", "D7")
@pytest.mark.parametrize("late", [False, True])
async def test_an_attempt_that_lost_its_lease_records_nothing(app: App, late: bool) -> None:
    errors: list[str] = []
    probe = StoreProbe(app.store, app.clock)  # type: ignore[arg-type]
    other_token = token(10_000, 1)

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await probe.sql(f"update duly.agenda set token = {other_token}")
        try:
            await delivery.do("late", list, late=late)
        except duly.Conflict as error:
            errors.append(str(error))

    id = await run_to_end(app)
    assert await names(app, id) == []
    assert (await app.get(id)).state == "processing"
    assert len(errors) == (not late)


@pytest.mark.requirement("F8")
async def test_an_unavailable_store_loses_no_step(app: App) -> None:
    ran: list[int] = []

    @app.handler("work", retry=QUICK)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.do("once", ran.append, 1)

    arm("step.before=drop@1")
    id = await run_to_end(app)
    assert (await app.get(id)).state == "completed"
    assert [each.reason for each in await app.attempts(id)] == ["transport_unavailable", None]
    assert ran == [1]


@pytest.mark.requirement("F8")
async def test_a_step_that_waits_to_be_recorded_is_not_lost_with_its_attempt(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    @app.handler("work", retry=QUICK, timeout=0.2)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.do("first", list)
        with monkeypatch.context() as patched:
            if delivery.attempt == 1:
                patched.setattr(app.store.steps, "record", never)
            await asyncio.gather(*(delivery.do(name, ran.append, name) for name in ("a", "b")))

    id = await run_to_end(app)
    assert [each.reason for each in await app.attempts(id)] == ["timeout_exceeded", None]
    assert ran == ["a", "b"]
    assert sorted(await names(app, id)) == ["a", "b", "first"]


@pytest.mark.requirement("F8")
async def test_a_thread_of_an_ended_attempt_records_nothing(small_app: App) -> None:
    over, finished = threading.Event(), threading.Event()
    refused: list[str] = []

    def do_late(delivery: Delivery[Any]) -> None:
        over.wait(20)
        try:
            delivery.do("too late", list)
        except duly.Conflict as error:
            refused.append(str(error))
        finished.set()

    @small_app.handler("work", retry=duly.no_retry)
    def work(delivery: Delivery[Any]) -> None:
        threading.Thread(target=do_late, args=(delivery,), daemon=True).start()

    id = await run_to_end(small_app)
    assert (await small_app.get(id)).state == "completed"
    over.set()
    await asyncio.to_thread(finished.wait, 20)
    assert "the attempt has ended" in refused[0]
    assert await names(small_app, id) == []


@pytest.mark.requirement("F8")
async def test_a_step_after_the_timeout_of_a_thread_is_recorded(app: App) -> None:
    ran: list[str] = []

    @app.handler("work", retry=QUICK, timeout=0.05)
    def work(delivery: Delivery[Any]) -> None:
        while delivery.attempt == 1 and not app.telemetry.counts["HandlerOverran"]:
            pass
        delivery.do("late", ran.append, "late")

    id = await run_to_end(app)
    assert [each.reason for each in await app.attempts(id)] == ["timeout_exceeded", None]
    assert ran == ["late"]


@pytest.mark.requirement("F8")
async def test_steps_are_deleted_with_their_delivery(app: App, clock: VirtualClock) -> None:
    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        await delivery.do("one", list)

    gone = await run_to_end(app)
    clock.advance(10 * HOUR)
    kept = await run_to_end(app)
    age = timedelta(hours=5)
    assert await app.store.maintenance.prune(age, age, BEGINNING, 10) == (1, None)
    probe = StoreProbe(app.store, app.clock)  # type: ignore[arg-type]
    assert {str(row["delivery"]) for row in await probe.sql("select delivery from duly.steps")} == {
        kept
    }
    with pytest.raises(duly.NotFound):
        await app.steps(gone)
