"""app.run() inside another program: it stops when requested, and changes nothing global."""

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from duly import App, Delivery
from duly.errors import StoreIsOwned

SECONDS = 30
pytestmark = pytest.mark.requirement("D13")


def host_handler(_number: int, _frame: object) -> None:
    """The host's own signal handler."""


@pytest.fixture
def host() -> Iterator[None]:
    """A process that handles its signals itself."""
    before = {each: signal.signal(each, host_handler) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def state_of_python() -> dict[str, Any]:
    """The global state of the process."""
    return {
        "switch": sys.getswitchinterval(),
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "policy": asyncio.get_event_loop_policy(),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        "recursion": sys.getrecursionlimit(),
        "path": list(sys.path),
    }


SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def test_a_run_does_not_change_global_state(database_url: str, host: None) -> None:
    app, seen = App(database_url, environment={}), []

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        seen.append(state_of_python())
        app.stop()

    before = state_of_python()
    async with app:
        await app.deliver("work")
        await asyncio.wait_for(app.run(), SECONDS)
    assert seen == [before]
    assert state_of_python() == before
    assert [signal.getsignal(each) for each in SIGNALS] == [host_handler] * 2


async def test_a_stop_before_the_run_ends_it_at_once(database_url: str) -> None:
    app, ran = App(database_url, environment={}), []

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        ran.append(delivery.payload)
        app.stop()

    async with app:
        await app.deliver("work")
        app.stop()
        await asyncio.wait_for(app.run(signals=False), SECONDS)
        assert ran == []
        assert await app.store.workers.all() == []
        # It counted for that run only; the next one works.
        await asyncio.wait_for(app.run(signals=False), SECONDS)
    assert ran == [None]


async def test_a_stop_right_after_the_run_began_counts(database_url: str) -> None:
    app = App(database_url, environment={})
    running = asyncio.create_task(app.run(signals=False))
    app.stop()
    await asyncio.wait_for(running, SECONDS)


async def test_a_stop_during_the_start_counts(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, opening = App(database_url, environment={}), asyncio.Event()

    async def hangs(**_: Any) -> None:
        opening.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(app.store, "open", hangs)
    running = asyncio.create_task(app.run(signals=False))
    await asyncio.wait_for(opening.wait(), SECONDS)
    app.stop()
    await asyncio.wait_for(running, SECONDS)


async def test_a_sync_handler_can_stop_the_run(database_url: str) -> None:
    app = App(database_url, environment={}, poll=60)

    @app.handler("work")
    def work(delivery: Delivery[Any]) -> None:
        app.stop()

    async with app:
        accepted = await app.deliver("work")
        await asyncio.wait_for(app.run(signals=False), SECONDS)
        assert (await app.get(accepted.id)).state == "completed"


async def test_a_run_whose_start_fails_raises_the_reason(sqlite_url: str, tmp_path: Any) -> None:
    (tmp_path / "duly.db").write_bytes(b"this is no database at all" * 100)
    app = App(sqlite_url, environment={})
    with pytest.raises(Exception, match="not a database"):
        await asyncio.wait_for(app.run(signals=False), SECONDS)


@pytest.mark.requirement("D7", "F5")
async def test_a_file_stays_owned_while_a_thread_of_its_worker_runs(sqlite_url: str) -> None:
    app, began, may_end = (
        App(sqlite_url, environment={}, drain=0),
        asyncio.Event(),
        threading.Event(),
    )
    loop = asyncio.get_running_loop()

    @app.handler("work", timeout=60)
    def work(delivery: Delivery[Any]) -> None:
        loop.call_soon_threadsafe(began.set)
        may_end.wait()

    async with asyncio.timeout(SECONDS):
        running = asyncio.create_task(app.run(signals=False))
        async with App(sqlite_url, environment={}) as other:
            other.expect("work")
            await other.deliver("work")
            await began.wait()
            app.stop()
            await running
            with pytest.raises(StoreIsOwned, match="already runs"):
                await other.store.own()
        with pytest.raises(StoreIsOwned, match="start again in a new process"):
            await app.run(signals=False)
    may_end.set()
