"""Bulk operations that are cancelled during a commit report that batch first."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, DeadLetterFilter, Delivery
from duly.services import dead_letters
from duly.services.interruption import Abandoned, ended
from duly.services.schedules import backfill
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START

pytestmark = pytest.mark.requirement("F4", "C10")
DEADLINE_SECONDS = 20.0
MANY = 6


class Held:
    """A call of the store that is executed, and whose response is delayed."""

    def __init__(self, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done, self.proceed = asyncio.Event(), asyncio.Event()
        self._call: Callable[..., Any] = getattr(owner, name)
        monkeypatch.setattr(owner, name, self)

    async def __call__(self, *arguments: Any) -> Any:
        found = await self._call(*arguments)
        self.done.set()
        await self.proceed.wait()
        return found


@pytest.fixture
async def app(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    """Dead letters, a schedule with past occurrences, and batches of two."""
    monkeypatch.setattr(dead_letters, "BATCH", 2)
    monkeypatch.setattr(backfill, "BACKFILL_SLICE", 2)
    async with App(database_url, clock=VirtualClock(START), environment={}) as opened:

        @opened.handler("work", retry=duly.no_retry)
        async def work(delivery: Delivery[Any]) -> None:
            raise duly.ValidationFailure("no")

        await opened.deliver_many([("work", n) for n in range(MANY)])
        await run_until_idle(opened)
        await opened.schedule("hourly", duly.every("1h", anchor=START), "work")
        yield opened


OPERATIONS: dict[str, Callable[[App], AsyncIterator[Any]]] = {
    "retry": lambda app: app.dead_letters.retry_all(),
    "discard": lambda app: app.dead_letters.discard_all(DeadLetterFilter(), "enough"),
    "backfill": lambda app: app.schedules.backfill("hourly", START - timedelta(hours=5), START),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_cancelled_operation_reports_the_running_batch(
    app: App, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: Any = app.store.schedules if operation == "backfill" else app.store.dead_letters
    held = Held(batches, "add_runs" if operation == "backfill" else "move", monkeypatch)
    reported: list[int] = []

    async def consume() -> None:
        async for each in OPERATIONS[operation](app):
            reported.append(each if isinstance(each, int) else each.done)

    async with asyncio.timeout(DEADLINE_SECONDS):
        consuming = asyncio.create_task(consume())
        await held.done.wait()
        consuming.cancel()
        held.proceed.set()
        with pytest.raises(asyncio.CancelledError):
            await consuming
    assert reported == [2]
    left = await app.dead_letters.count()
    made = len(await app.list(schedule="hourly")) - 1
    assert (left, made) == ((MANY, 2) if operation == "backfill" else (MANY - 2, 0))


async def test_a_second_cancellation_does_not_wait() -> None:
    begun, never = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def batch() -> None:
        begun.set()
        await never

    waiting = asyncio.create_task(ended(batch()))
    await begun.wait()
    waiting.cancel()
    await asyncio.wait((waiting,), timeout=0)
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(Abandoned):
        await waiting
    never.cancel()
