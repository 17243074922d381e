"""Synchronous code waits for the end of a delivery."""

import asyncio
import threading
from collections.abc import Iterator
from decimal import Decimal

import pytest

import duly
from duly import App, State
from duly.records.delivery import Accepted
from duly.sync.handles import SyncHandle

pytestmark = pytest.mark.requirement("P2", "P3")


@pytest.fixture
def app(database_url: str) -> Iterator[App]:
    """An app that works on an event loop in another thread."""
    app = App(database_url, environment={})

    @app.handler("price")
    async def price(order: int) -> Decimal:
        return Decimal(order) / 2

    app.price = price  # type: ignore[attr-defined]
    app.handler("fail", retry=duly.no_retry)(lambda delivery: 1 / 0)
    ready = threading.Event()
    stopping: list[asyncio.Event] = []

    async def work() -> None:
        stopping.append(asyncio.Event())
        async with app.worker():
            ready.set()
            await stopping[0].wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(work(),))
    thread.start()
    assert ready.wait(60)
    yield app
    loop.call_soon_threadsafe(stopping[0].set)
    thread.join(60)
    loop.close()


def test_the_result_of_a_handler_is_waited_for(app: App) -> None:
    handle: SyncHandle[Decimal] = app.price.sync.deliver(7)  # type: ignore[attr-defined]
    assert isinstance(handle, Accepted)
    assert handle.result(timeout=60) == Decimal("3.5")
    assert handle.get().state is State.COMPLETED
    assert app.sync.deliver("price", {"order": 8}).wait(60).result == "4"
    assert app.sync.wait(handle.id, timeout=60).result == "3.5"


def test_a_failure_is_raised_where_it_is_waited_for(app: App) -> None:
    handle = app.sync.deliver("fail")
    with pytest.raises(duly.DeliveryFailed, match="ZeroDivisionError"):
        handle.result(timeout=60)


def test_a_delivery_is_cancelled_and_a_wait_ends_in_time(app: App) -> None:
    handle = app.sync.deliver("price", {"order": 1}, after=3600)
    with pytest.raises(duly.NotEnded):
        handle.wait(timeout=0.05)
    assert handle.cancel().state is State.CANCELLED
