"""One attempt from start to settlement: how it ends, and what is written about it."""

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
from tests.engine.house import Gate, House, only, states
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
    house: House, kind: str, fail: Callable[[], None], reason: str, verdict: str
) -> None:
    app = house.app()

    async def handle(delivery: Delivery[Any]) -> None:
        fail()

    def handle_in_thread(delivery: Delivery[Any]) -> None:
        fail()

    app.handler("work")(handle if kind == "async" else handle_in_thread)
    async with app:
        await app.deliver("work")
        assert await asyncio.wait_for(run_until_idle(app), 30) == 1
        booked = await only(app)
        (attempt,) = await app.attempts(booked.id)
        assert app.telemetry.counts["AttemptFailed"] == 1
    assert (booked.reason, attempt.reason) == (reason, reason)
    assert (attempt.outcome, attempt.attempt, booked.attempt) == (verdict, 1, 1)
    assert booked.state == ("dead" if verdict == "dead" else "pending")
    assert booked.error
    assert attempt.error == booked.error


@pytest.mark.requirement("F1")
async def test_a_payload_that_cannot_be_read_is_a_serialization_error(house: House) -> None:
    app, called = house.app(), []

    @app.handler("work")
    async def work(delivery: Delivery[Order]) -> None:
        called.append(delivery)

    async with app:
        await app.deliver("work", {"number": "seven"})
        await run_until_idle(app)
        booked = await only(app)
    assert (booked.state, booked.reason) == ("dead", Reason.SERIALIZATION_ERROR)
    assert "number" in (booked.error or "")
    assert called == []


@pytest.mark.requirement("F1")
async def test_a_reason_can_have_its_own_retry_rule(house: House) -> None:
    app = house.app()
    plan = duly.exponential().on("validation_failure", duly.delays(7))

    @app.handler("work", retry=plan)
    async def work(delivery: Delivery[Any]) -> None:
        raise duly.ValidationFailure("wrong")

    async with app:
        await app.deliver("work")
        assert await run_until_idle(app) == 1
        assert (await only(app)).next_at == house.clock.now() + timedelta(seconds=7)
        assert await run_until_idle(app, within=60) == 1
        assert (await only(app)).state == "dead"


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_handler_that_outlives_its_deadline_is_a_timeout(house: House, kind: str) -> None:
    import threading

    app, ends = house.app(), threading.Event()

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
                assert (await only(app)).state == "processing"
                ends.set()
            assert await running == 1
        booked = await only(app)
    assert (booked.state, booked.attempt) == ("pending", 1)
    assert booked.reason == Reason.TIMEOUT_EXCEEDED
    assert booked.error == "it took longer than 0.02 seconds"


async def test_a_deadline_strikes_only_whom_it_concerns(house: House) -> None:
    app, gate = house.app(), Gate()

    @app.handler("slow", timeout=0.02)
    async def slow(delivery: Delivery[Any]) -> None:
        await asyncio.Event().wait()

    app.handler("patient")(gate.handle)
    life = await house.born(app)
    await app.deliver("patient")
    await app.deliver("slow")
    await life.tick()
    slot_freed = life.engine.worker.signal.wake
    slot_freed.clear()
    await asyncio.wait_for(slot_freed.wait(), 10)
    assert life.engine.running == 1
    gate.open.set()
    await life.finish()
    assert {each.target: each.state for each in await app.list()} == {
        "slow": "pending",
        "patient": "completed",
    }


async def test_an_error_that_no_store_could_keep_stops_nobody(any_house: House) -> None:
    app = any_house.app()

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
async def test_retry_times_survive_a_restart(any_house: House) -> None:
    clock, tries = any_house.clock, []

    def failing_app() -> duly.App:
        app = any_house.app()

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
        booked = await app.get(id)
        assert (booked.attempt, booked.next_at) == (2, start + timedelta(seconds=90))
    async with failing_app() as app:
        assert await run_until_idle(app, within=timedelta(days=1)) == 2
        assert (await app.get(id)).state == "dead"
    waits = [0, 30, 90, 190]
    assert tries == [(n, start + timedelta(seconds=wait)) for n, wait in enumerate(waits, 1)]


@pytest.mark.requirement("F2")
async def test_a_plan_on_the_delivery_comes_before_its_handlers(house: House) -> None:
    app = house.app()

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
async def test_nobody_sleeps_while_holding_work(house: House) -> None:
    app = house.app(concurrency=1)

    @app.handler("work")
    async def work(delivery: Delivery[str]) -> None:
        if delivery.payload == "fails":
            raise duly.Retry(after=3600)

    async with app:
        await app.deliver("work", "fails", priority=9)
        await app.deliver("work", "fine")
        assert await run_until_idle(app) == 2
        (waiting,) = await app.list(state="pending")
    assert (waiting.worker, waiting.claimed_at) != (None, house.clock.now())
    assert waiting.next_at == house.clock.now() + timedelta(hours=1)


@pytest.mark.requirement("F3")
async def test_the_last_attempt_makes_the_dead_letter_in_its_own_write(any_house: House) -> None:
    app = any_house.app()

    @app.handler("work", retry=duly.delays(0, 0))
    async def work(delivery: Delivery[Any]) -> None:
        raise ValueError(f"attempt {delivery.attempt}")

    async with app:
        id = (await app.deliver("work")).id
        assert await run_until_idle(app) == 3
        booked, history = await app.get(id), await app.deliveries.history(id)
    assert (booked.state, booked.attempt) == ("dead", 3)
    assert [(each.outcome, each.attempt) for each in history] == [
        ("retry", 1),
        ("retry", 2),
        ("dead", 3),
    ]
    assert booked.finished_at == history[-1].finished_at


async def test_what_expired_is_not_attempted(any_house: House) -> None:
    app, gate = any_house.app(), Gate()
    gate.open.set()
    app.handler("work")(gate.handle)
    async with app:
        soon = any_house.clock.now() + timedelta(seconds=10)
        late = await app.deliver("work", "late", expires_at=soon)
        house_time = any_house.clock.advance(10)
        fine = await app.deliver("work", "fine", expires_at=house_time + timedelta(microseconds=1))
        assert await run_until_idle(app) == 1
        assert ((await app.get(late.id)).state, (await app.get(fine.id)).state) == (
            "cancelled",
            "completed",
        )
        assert (await app.get(late.id)).attempt == 0
        assert [each.outcome for each in await app.deliveries.history(late.id)] == ["expired"]
    assert gate.entered == ["fine"]


@pytest.mark.requirement("D3")
async def test_a_retry_plan_that_cannot_be_read_stops_nobody(any_house: House) -> None:
    app = any_house.app()

    @app.handler("work", retry=duly.no_retry)
    async def work(delivery: Delivery[str]) -> None:
        if delivery.payload == "fails":
            raise ValueError("no")

    async with app:
        bad = await app.deliver("work", "fails")
        await app.deliver("work", "fine")
        probe = StoreProbe(app.store, any_house.clock)  # type: ignore[arg-type]
        await probe.sql(f"update duly.deliveries set retry = '{{nonsense' where id = '{bad.id}'")
        assert await run_until_idle(app) == 2
        assert await states(app) == {"dead": 1, "completed": 1}
        assert app.telemetry.counts["PlanUnreadable"] == 1


@pytest.mark.requirement("D9")
async def test_every_attempt_carries_the_same_id_and_its_number(any_house: House) -> None:
    app, seen = any_house.app(), []

    @app.handler("work", retry=duly.delays(1, 1))
    async def work(delivery: Delivery[Any]) -> None:
        seen.append((delivery.id, delivery.attempt, delivery.key, delivery.due_at))
        raise ValueError("again")

    async with app:
        accepted = await app.deliver("work", key="k")
        await run_until_idle(app, within=10)
    assert seen == [(accepted.id, number, "k", accepted.due_at) for number in (1, 2, 3)]


@pytest.mark.requirement("D13", "F6")
@pytest.mark.parametrize("asked", ["unfinished_before", "enlist", "join"])
async def test_cut_off_before_its_handler_was_called_it_is_handed_back(
    any_house: House, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    app, gate = any_house.app(lease=3600), Gate()
    app.handler("work", retry=duly.no_retry)(gate.handle)
    life = await any_house.born(app)
    ways = {"unfinished_before": {"overlap": "skip"}, "join": {"overlap": "queue"}}
    terms = ways.get(asked, {"stream": "team:7"})
    await app.schedule("each", duly.every("1m"), "work", **terms)
    any_house.clock.advance(60)
    began = asyncio.Event()

    async def hangs(*_: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    store = app.store.schedules if asked == "unfinished_before" else app.store.streams
    monkeypatch.setattr(store, asked, hangs)
    assert await life.tick() == 1
    assert began.is_set()
    await life.engine.worker.runner.drain(0)
    await life.engine.worker.settler.flush()
    cut, *_ = sorted(await app.list(), key=lambda each: each.due_at)
    assert (cut.state, cut.attempt, cut.error) == ("pending", 0, None)
    assert gate.entered == []
