"""What a handler returns is kept with its attempt, and what it raises too."""

import asyncio
import enum
import pickle
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

import duly
from duly import App, State
from duly.domain.deliveries.results import RESULT_LIMIT
from duly.testing import VirtualClock, run_until_idle

pytestmark = pytest.mark.requirement("P3")


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int


@dataclass
class Another:
    x: int


class Report(msgspec.Struct):
    pages: int


class Customer(pydantic.BaseModel):
    name: str


VALUES = [
    (int, 7),
    (bool, False),
    (str, "text"),
    (bytes, b"\x00\xff"),
    (date, date(2026, 11, 1)),
    (datetime, datetime(2026, 11, 1, 9, tzinfo=UTC)),
    (timedelta, timedelta(hours=1)),
    (Decimal, Decimal("1.50")),
    (UUID, UUID(int=7)),
    (Colour, Colour.RED),
    (Point, Point(1)),
    (Report, Report(3)),
    (Customer, Customer(name="Ada")),
    (list[Report], [Report(1), Report(2)]),
    (dict[str, Report | None], {"a": Report(1), "b": None}),
    (None, None),
    (dict[int, str], {1: "a"}),
    ("'Missing' | None", 1),
    ("list[", [1]),
    (Iterable[int], [1]),
    (Point | Another, {"x": 1}),
    (Awaitable[int], 7),
]
"""Types and what is returned; from a type that nobody can read, it comes back as plain JSON."""


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
async def test_a_result_comes_back_as_it_was_returned(
    small_app: App, kind: Any, value: object
) -> None:
    async def work(delivery: duly.Delivery) -> object:
        return value

    work.__annotations__["return"] = kind
    handle = await small_app.handler("work")(work).deliver()

    await run_until_idle(small_app)

    assert await handle.result() == value


async def test_a_result_is_kept_with_the_attempt_that_made_it(app: App) -> None:
    @app.handler("report", retry=duly.delays(0))
    async def report(delivery: duly.Delivery) -> dict[str, int]:
        if delivery.attempt == 1:
            raise ValueError("not yet")
        return {"pages": 12}

    handle = await report.deliver()
    await run_until_idle(app)

    found = await app.deliveries.detail(handle.id)
    assert found.result == {"pages": 12}
    assert [each.result for each in found.attempts] == [None, {"pages": 12}]
    assert [each.answer for each in found.attempts] == [None, None]
    assert [each.exception for each in found.attempts] == ["ValueError", None]
    history = await app.deliveries.history(handle.id)
    assert history[-1].result == {"pages": 12}


async def test_the_result_of_a_plain_handler_is_kept(app: App) -> None:
    @app.handler("report")
    def report(pages: int) -> int:
        return pages * 2

    handle = await report.deliver(6)
    await run_until_idle(app)

    assert await handle.result() == 12


async def test_json_is_kept_as_it_is(app: App) -> None:
    @app.handler("report")
    async def report(text: str) -> msgspec.Raw:
        return msgspec.Raw(text.encode())

    right, wrong = await report.deliver('{"pages": 1.50}'), await report.deliver('{"pages":')
    await run_until_idle(app)

    assert (await right.wait()).result == {"pages": 1.5}
    with pytest.raises(duly.DeliveryFailed, match=r"serialization_error: .*not valid JSON"):
        await wrong.wait()


async def test_a_result_is_committed_with_the_transaction_of_its_handler(app: App) -> None:
    @app.handler("report")
    async def report(delivery: duly.Delivery) -> str:
        await delivery.transaction.fetch("select 1")
        return "written"

    handle = await report.deliver()
    await run_until_idle(app)

    assert await handle.result() == "written"


async def test_results_of_a_stream_are_kept(app: App) -> None:
    @app.handler("double")
    async def double(number: int) -> int:
        return number * 2

    handles = [await double.using(stream="one").deliver(number) for number in range(5)]
    await run_until_idle(app)

    assert [await each.result() for each in handles] == [0, 2, 4, 6, 8]


async def test_a_handler_that_returns_nothing_leaves_no_row_in_the_history(app: App) -> None:
    @app.handler("work")
    async def work() -> None: ...

    handle = await work.deliver()
    await run_until_idle(app)

    found = await app.deliveries.detail(handle.id)
    assert (found.state, found.result) == (State.COMPLETED, None)
    rows = await app.store.database.fetch_named(  # type: ignore[attr-defined]
        "transfer.history", ids=[handle.id]
    )
    assert not rows


async def test_a_result_is_not_kept_where_that_is_switched_off(app: App) -> None:
    @app.handler("work", keep_result=False)
    async def work() -> object:
        return object()

    handle = await work.deliver()
    await run_until_idle(app)

    found = await app.deliveries.detail(handle.id)
    assert (found.state, found.result) == (State.COMPLETED, None)


UNFIT = {
    "too large": ("x" * RESULT_LIMIT, "bytes are more than the"),
    "no JSON": (object(), "cannot be written as JSON"),
    "not a number": ([float("nan")], "NaN and infinity are not JSON"),
    "half a character": ("\ud800", "lone surrogate"),
}


@pytest.mark.parametrize(("result", "problem"), UNFIT.values(), ids=UNFIT)
async def test_a_result_that_cannot_be_kept_is_a_dead_letter_that_says_so(
    app: App, result: object, problem: str
) -> None:
    calls = []

    @app.handler("work")
    async def work(delivery: duly.Delivery) -> object:
        calls.append(delivery.id)
        await delivery.transaction.execute("create table written (number integer)")
        return result

    handle = await work.deliver()
    await run_until_idle(app)

    found = await app.get(handle.id)
    assert (found.state, found.reason) == (State.DEAD, "serialization_error")
    assert problem in (found.error or "")
    assert "keep_result=False" in (found.error or "")
    assert len(calls) == 1, "it is not repeated by itself"
    async with app.transaction() as transaction:
        # The handler's own writes were rolled back.
        await transaction.execute("create table written (number integer)")


async def test_a_result_as_large_as_allowed_is_kept(app: App) -> None:
    large = "x" * (RESULT_LIMIT - 2)

    @app.handler("work")
    async def work() -> str:
        return large

    handle = await work.deliver()
    await run_until_idle(app)

    assert await handle.result() == large


async def fail_with(error: BaseException) -> None:
    raise error


class CardDeclined(Exception):
    """An error of a user."""


async def test_a_failed_attempt_keeps_the_class_of_its_exception(app: App) -> None:
    @app.handler("pay", retry=duly.no_retry)
    async def pay() -> None:
        await fail_with(CardDeclined("no money"))

    handle = await pay.deliver()
    await run_until_idle(app)

    (attempt,) = await app.attempts(handle.id)
    assert attempt.exception == f"{__name__}.CardDeclined"
    assert attempt.error is not None
    assert attempt.error.startswith("CardDeclined: no money")
    assert "in fail_with" in (attempt.traceback or "")


async def test_waiting_returns_the_delivery_when_it_has_completed(database_url: str) -> None:
    app = App(database_url, environment={})
    goes_on = asyncio.Event()

    @app.handler("report")
    async def report() -> int:
        await goes_on.wait()
        return 12

    async with app.worker():
        handle = await report.deliver()
        waiting = asyncio.create_task(app.deliveries.wait(handle.id, timeout=60))
        with pytest.raises(duly.NotEnded):
            await handle.wait(timeout=0)
        goes_on.set()
        found = await waiting

    assert (found.state, found.result) == (State.COMPLETED, 12)


async def test_waiting_for_an_unknown_delivery_is_refused_at_once(app: App) -> None:
    app.handler("work")(lambda delivery: None)
    elsewhere = app.within("elsewhere")
    elsewhere.expect("work")
    theirs = await elsewhere.deliver("work", after=3600)

    with pytest.raises(duly.NotFound):
        await app.wait(theirs.id, timeout=60)
    with pytest.raises(duly.InvalidInput, match="timeout: -1 is not from 0 seconds"):
        await elsewhere.wait(theirs.id, timeout=-1)


async def test_waiting_raises_what_a_dead_letter_says(app: App) -> None:
    @app.handler("pay", retry=duly.no_retry)
    async def pay() -> None:
        raise CardDeclined("no money")

    handle = await pay.deliver()
    await run_until_idle(app)

    with pytest.raises(
        duly.DeliveryFailed, match=r"is dead; handler_exception: .*no money"
    ) as info:
        await handle.result()
    assert info.value.delivery.attempts[0].exception == f"{__name__}.CardDeclined"


async def test_waiting_for_a_cancelled_delivery_raises(app: App) -> None:
    app.handler("work")(lambda delivery: None)
    handle = await app.deliver("work", after=60)
    await handle.cancel()

    with pytest.raises(duly.DeliveryFailed, match=r"is cancelled$"):
        await handle.wait()


async def test_waiting_ends_after_its_timeout_and_the_delivery_goes_on(
    database_url: str,
) -> None:
    clock = VirtualClock(sleeping_moves_it=True)
    async with App(database_url, clock=clock, environment={}) as app:
        app.handler("work")(lambda delivery: None)
        handle = await app.deliver("work", after=3600)

        with pytest.raises(duly.NotEnded, match="is pending, 90 seconds later") as info:
            await handle.wait(timeout=timedelta(seconds=90))

        assert isinstance(info.value, TimeoutError)
        assert clock.monotonic() < 100
        assert (await handle.get()).state is State.PENDING


async def test_waiting_does_not_read_often(database_url: str) -> None:
    clock = VirtualClock(sleeping_moves_it=True)
    async with App(database_url, clock=clock, environment={}) as app:
        app.handler("work")(lambda delivery: None)
        handles = [await app.deliver("work", after=3600) for _ in range(50)]
        reads = 0
        read = app.store.deliveries.unfinished

        async def counted(ids: Any) -> set[str]:
            nonlocal reads
            reads += 1
            return await read(ids)

        app.store.deliveries.unfinished = counted  # type: ignore[method-assign]
        ends = await asyncio.gather(
            *(each.wait(timeout=50) for each in handles), return_exceptions=True
        )

        assert all(isinstance(each, duly.NotEnded) for each in ends)
        assert 50 <= reads <= 100, "once a second for all of them, and a little more in the first"


async def test_waiting_ends_in_time_while_the_store_is_away(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock(sleeping_moves_it=True)
    async with App(database_url, clock=clock, environment={}) as app:
        app.handler("work")(lambda delivery: None)
        handle = await app.deliver("work", after=3600)
        reads = 0

        async def away(_ids: Any) -> set[str]:
            nonlocal reads
            reads += 1
            raise duly.StoreUnavailable("it is away")

        monkeypatch.setattr(app.store.deliveries, "unfinished", away)
        with pytest.raises(duly.NotEnded):
            await handle.wait(timeout=10)
        assert clock.monotonic() < 11
        assert reads < 40


async def test_an_error_while_waiting_reaches_those_who_wait(
    small_app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_app.handler("work")(lambda delivery: None)
    handle = await small_app.deliver("work", after=3600)

    async def broken(_ids: Any) -> set[str]:
        raise ZeroDivisionError

    monkeypatch.setattr(small_app.store.deliveries, "unfinished", broken)
    with pytest.raises(ZeroDivisionError):
        await handle.wait(timeout=10)


class HangingClock(VirtualClock):
    """A clock on which nobody wakes up by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeping = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.sleeping.set()
        await asyncio.Event().wait()


async def test_a_new_caller_does_not_wait_for_the_pause_of_another(database_url: str) -> None:
    clock = HangingClock()
    async with App(database_url, clock=clock, environment={}) as app:
        app.handler("work")(lambda delivery: None)
        waiting, done = await app.deliver("work", after=3600), await app.deliver("work")
        await run_until_idle(app)
        other = asyncio.create_task(app.deliveries.detail(waiting.id, wait=60))
        await clock.sleeping.wait()

        async with asyncio.timeout(60):
            assert await app.parts.ends.wait(done.id, 30)

        app.parts.ends.release()
        assert (await other).state is State.PENDING


async def test_a_result_that_is_not_kept_is_none(small_app: App) -> None:
    @small_app.handler("work", keep_result=False)
    async def work() -> int:
        return 7

    handle = await work.deliver()
    await run_until_idle(small_app)

    assert await handle.result() is None


async def test_a_copied_handle_says_how_to_wait(small_app: App) -> None:
    small_app.handler("work", retry=duly.no_retry)(lambda delivery: 1 / 0)
    handle = await small_app.deliver("work")
    await run_until_idle(small_app)

    copied = pickle.loads(pickle.dumps(handle))
    assert copied == handle
    with pytest.raises(duly.Conflict, match=f"app.deliveries.wait.'{handle.id}'"):
        await copied.wait()
    with pytest.raises(duly.DeliveryFailed) as info:
        await handle.wait()
    assert pickle.loads(pickle.dumps(info.value)).delivery == info.value.delivery
