"""One attempt from start to settlement: how it ends, and what is written."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

import duly
from duly import Delivery, Reason
from duly.errors import StoreUnavailable
from duly.testing import run_until_idle
from tests.engine.cluster import Barrier, Cluster, only_delivery, states
from tests.stores.store_probe import StoreProbe


class Order(msgspec.Struct):
    number: int


def cancelled() -> None:
    raise asyncio.CancelledError("something it awaited was cancelled")


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def exhausted() -> None:
    empty: Iterator[int] = iter(())
    next(empty)


FAILURES = [
    (raising(duly.Fail("no", reason="dependency_failure")), "dependency_failure", "retry"),
    (raising(duly.Fail("no")), "handler_exception", "retry"),
    (raising(duly.Fail("no", reason="timeout_exceeded", retry=False)), "timeout_exceeded", "dead"),
    (raising(duly.Retry("later", after=5)), "handler_exception", "retry"),
    (raising(duly.Retry(reason="transport_unavailable")), "transport_unavailable", "retry"),
    (raising(duly.ValidationFailure("wrong")), "validation_failure", "dead"),
    (raising(duly.DependencyFailure("away")), "dependency_failure", "retry"),
    (raising(ConnectionResetError("reset")), "transport_unavailable", "retry"),
    (raising(TimeoutError("slow")), "timeout_exceeded", "retry"),
    (raising(StoreUnavailable("away")), "dependency_failure", "retry"),
    (lambda: msgspec.convert("x", int), "validation_failure", "dead"),
    (raising(ValueError("what")), "handler_exception", "retry"),
    (raising(AssertionError()), "handler_exception", "retry"),
    (lambda: sys.exit(3), "handler_exception", "retry"),
    (exhausted, "handler_exception", "retry"),
    (cancelled, "handler_exception", "retry"),
]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize(("fail", "reason", "verdict"), FAILURES)
async def test_every_failure_has_its_reason(
    cluster: Cluster, kind: str, fail: Callable[[], None], reason: str, verdict: str
) -> None:
    app = cluster.app()

    async def handle(delivery: Delivery[Any]) -> None:
        fail()

    def handle_in_thread(delivery: Delivery[Any]) -> None:
        fail()

    app.handler("work")(handle if kind == "async" else handle_in_thread)
    async with app:
        await app.deliver("work")
        assert await asyncio.wait_for(run_until_idle(app), 30) == 1
        delivery = await only_delivery(app)
        (attempt,) = await app.attempts(delivery.id)
        assert app.telemetry.counts["AttemptFailed"] == 1
    assert (delivery.reason, attempt.reason) == (reason, reason)
    assert (attempt.outcome, attempt.attempt, delivery.attempt) == (verdict, 1, 1)
    assert delivery.state == ("dead" if verdict == "dead" else "pending")
    assert delivery.error
    assert attempt.error == delivery.error


@pytest.mark.requirement("F1")
async def test_an_unreadable_payload_is_a_serialization_error(cluster: Cluster) -> None:
    app, called = cluster.app(), []

    @app.handler("work")
    async def work(delivery: Delivery[Order]) -> None:
        called.append(delivery)

    async with app:
        await app.deliver("work", {"number": "seven"})
        await run_until_idle(app)
        delivery = await only_delivery(app)
    assert (delivery.state, delivery.reason) == ("dead", Reason.SERIALIZATION_ERROR)
    assert "number" in (delivery.error or "")
    assert called == []


@pytest.mark.requirement("F1")
async def test_a_reason_can_have_its_own_retry_rule(cluster: Cluster) -> None:
    app = cluster.app()
    plan = duly.exponential().on("validation_failure", duly.delays(7))

    @app.handler("work", retry=plan)
    async def work(delivery: Delivery[Any]) -> None:
        raise duly.ValidationFailure("wrong")

    async with app:
        await app.deliver("work")
        assert await run_until_idle(app) == 1
        assert (await only_delivery(app)).next_at == cluster.clock.now() + timedelta(seconds=7)
        assert await run_until_idle(app, within=60) == 1
        assert (await only_delivery(app)).state == "dead"


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_handler_that_outlives_its_deadline_is_a_timeout(
    cluster: Cluster, kind: str
) -> None:
    import threading

    app, ends = cluster.app(), threading.Event()

    async def hang(delivery: Delivery[Any]) -> None:
        await asyncio.Event().wait()

    def hang_in_thread(delivery: Delivery[Any]) -> None:
        ends.wait(20)

    app.handler("work", timeout=0.02)(hang if kind == "async" else hang_in_thread)
    async with app:
        await app.deliver("work")
        running = asyncio.create_task(run_until_idle(app))
        async with asyncio.timeout(10):
            if kind == "sync":
                while not app.telemetry.counts["HandlerOverran"]:
                    await asyncio.tasks.sleep(0)
                assert (await only_delivery(app)).state == "processing"
                ends.set()
            assert await running == 1
        delivery = await only_delivery(app)
    assert (delivery.state, delivery.attempt) == ("pending", 1)
    assert delivery.reason == Reason.TIMEOUT_EXCEEDED
    assert delivery.error == "it took longer than 0.02 seconds"


async def test_a_deadline_ends_only_its_own_handler(cluster: Cluster) -> None:
    app, barrier = cluster.app(), Barrier()

    @app.handler("slow", timeout=0.02)
    async def slow(delivery: Delivery[Any]) -> None:
        await asyncio.Event().wait()

    app.handler("patient")(barrier.handle)
    process = await cluster.start_worker(app)
    await app.deliver("patient")
    await app.deliver("slow")
    await process.tick()
    slot_freed = process.engine.worker.signal.wake
    slot_freed.clear()
    await asyncio.wait_for(slot_freed.wait(), 10)
    assert process.engine.running == 1
    barrier.open.set()
    await process.finish()
    assert {each.target: each.state for each in await app.list()} == {
        "slow": "pending",
        "patient": "completed",
    }


async def test_an_error_text_that_no_store_accepts_does_not_block_others(
    any_cluster: Cluster,
) -> None:
    app = any_cluster.app()

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        if delivery.payload == 0:
            raise ValueError("a \0 and a \udcff and " + "x" * 10_000)

    async with app:
        await app.deliver_many(("work", number) for number in range(3))
        assert await asyncio.wait_for(run_until_idle(app), 30) == 3
        assert await states(app) == {"completed": 2, "pending": 1}
        (failed,) = await app.list(state="pending")
    assert "a \N{REPLACEMENT CHARACTER} and a ? and xxx" in (failed.error or "")


@pytest.mark.requirement("F2")
async def test_retry_times_survive_a_restart(any_cluster: Cluster) -> None:
    clock, tries = any_cluster.clock, []

    def failing_app() -> duly.App:
        app = any_cluster.app()

        @app.handler("work", retry=duly.exponential(base=30, cap=100, attempts=4, jitter=0))
        async def work(delivery: Delivery[Any]) -> None:
            tries.append((delivery.attempt, clock.now()))
            raise duly.DependencyFailure("away")

        return app

    start = clock.now()
    async with failing_app() as app:
        id = (await app.deliver("work")).id
        assert await run_until_idle(app) == 1
        assert await run_until_idle(app) == 0
    clock.advance(29)
    async with failing_app() as app:
        assert await run_until_idle(app) == 0
        clock.advance(1)
        assert await run_until_idle(app) == 1
        delivery = await app.get(id)
        assert (delivery.attempt, delivery.next_at) == (2, start + timedelta(seconds=90))
    async with failing_app() as app:
        assert await run_until_idle(app, within=timedelta(days=1)) == 2
        assert (await app.get(id)).state == "dead"
    waits = [0, 30, 90, 190]
    assert tries == [(n, start + timedelta(seconds=wait)) for n, wait in enumerate(waits, 1)]


@pytest.mark.requirement("F2")
async def test_the_retry_plan_of_a_delivery_overrides_that_of_its_handler(cluster: Cluster) -> None:
    app = cluster.app()

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[Any]) -> None:
        raise ValueError("no")

    async with app:
        own = await app.deliver("work", retry=duly.delays(3, 4))
        plain = await app.deliver("work")
        assert await run_until_idle(app, within=60) == 4
        assert (await app.get(own.id)).attempt == 3
        assert (await app.get(plain.id)).attempt == 1
        assert await states(app) == {"dead": 2}


@pytest.mark.requirement("F2")
async def test_a_waiting_retry_holds_no_slot(cluster: Cluster) -> None:
    app = cluster.app(concurrency=1)

    @app.handler("work")
    async def work(delivery: Delivery[str]) -> None:
        if delivery.payload == "fails":
            raise duly.Retry(after=3600)

    async with app:
        await app.deliver("work", "fails", priority=9)
        await app.deliver("work", "fine")
        assert await run_until_idle(app) == 2
        (waiting,) = await app.list(state="pending")
    assert (waiting.worker, waiting.claimed_at) != (None, cluster.clock.now())
    assert waiting.next_at == cluster.clock.now() + timedelta(hours=1)


@pytest.mark.requirement("F3")
async def test_the_last_attempt_and_the_dead_letter_are_one_write(any_cluster: Cluster) -> None:
    app = any_cluster.app()

    @app.handler("work", retry=duly.delays(0, 0))
    async def work(delivery: Delivery[Any]) -> None:
        raise ValueError(f"attempt {delivery.attempt}")

    async with app:
        id = (await app.deliver("work")).id
        assert await run_until_idle(app) == 3
        delivery, history = await app.get(id), await app.deliveries.history(id)
    assert (delivery.state, delivery.attempt) == ("dead", 3)
    assert [(each.outcome, each.attempt) for each in history] == [
        ("retry", 1),
        ("retry", 2),
        ("dead", 3),
    ]
    assert delivery.finished_at == history[-1].finished_at


async def test_an_expired_delivery_is_not_attempted(any_cluster: Cluster) -> None:
    app, barrier = any_cluster.app(), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    async with app:
        soon = any_cluster.clock.now() + timedelta(seconds=10)
        late = await app.deliver("work", "late", expires_at=soon)
        now = any_cluster.clock.advance(10)
        fine = await app.deliver("work", "fine", expires_at=now + timedelta(microseconds=1))
        assert await run_until_idle(app) == 1
        assert ((await app.get(late.id)).state, (await app.get(fine.id)).state) == (
            "cancelled",
            "completed",
        )
        assert (await app.get(late.id)).attempt == 0
        assert [each.outcome for each in await app.deliveries.history(late.id)] == ["expired"]
    assert barrier.entered == ["fine"]


@pytest.mark.requirement("D3")
async def test_an_unreadable_retry_plan_does_not_block_others(any_cluster: Cluster) -> None:
    app = any_cluster.app()

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[str]) -> None:
        if delivery.payload == "fails":
            raise ValueError("no")

    async with app:
        bad = await app.deliver("work", "fails")
        await app.deliver("work", "fine")
        probe = StoreProbe(app.store, any_cluster.clock)  # type: ignore[arg-type]
        await probe.sql(f"update duly.deliveries set retry = '{{nonsense' where id = '{bad.id}'")
        assert await run_until_idle(app) == 2
        assert await states(app) == {"dead": 1, "completed": 1}
        assert app.telemetry.counts["PlanUnreadable"] == 1


@pytest.mark.requirement("D9")
async def test_every_attempt_has_the_same_id_and_its_number(any_cluster: Cluster) -> None:
    app, seen = any_cluster.app(), []

    @app.handler("work", retry=duly.delays(1, 1))
    async def work(delivery: Delivery[Any]) -> None:
        seen.append((delivery.id, delivery.attempt, delivery.key, delivery.due_at))
        raise ValueError("again")

    async with app:
        accepted = await app.deliver("work", key="k")
        await run_until_idle(app, within=10)
    assert seen == [(accepted.id, number, "k", accepted.due_at) for number in (1, 2, 3)]


@pytest.mark.requirement("D13", "F6")
@pytest.mark.parametrize("method", ["unfinished_before", "enlist", "join"])
async def test_a_delivery_interrupted_before_its_handler_is_handed_back(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    app, barrier = any_cluster.app(lease=3600), Barrier()
    app.handler("work", retry=duly.no_retry)(barrier.handle)
    process = await any_cluster.start_worker(app)
    options_by_method = {"unfinished_before": {"overlap": "skip"}, "join": {"overlap": "queue"}}
    options = options_by_method.get(method, {"stream": "team:7"})
    await app.schedule("each", duly.every("1m"), "work", **options)
    any_cluster.clock.advance(60)
    began = asyncio.Event()

    async def hangs(*_: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    store = app.store.schedules if method == "unfinished_before" else app.store.streams
    monkeypatch.setattr(store, method, hangs)
    assert await process.tick() == 1
    assert began.is_set()
    await process.engine.worker.runner.drain(0)
    await process.engine.worker.settler.flush()
    cut, *_ = sorted(await app.list(), key=lambda each: each.due_at)
    assert (cut.state, cut.attempt, cut.error) == ("pending", 0, None)
    assert barrier.entered == []
