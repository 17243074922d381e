"""app.run() is a guest in its host's process: it stops when asked, and leaves all as it was."""

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


def hosts_own(_number: int, _frame: object) -> None:
    """What the host does about signals."""


@pytest.fixture
def host() -> Iterator[None]:
    """A process that handles its signals itself."""
    before = {each: signal.signal(each, hosts_own) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def state_of_python() -> dict[str, Any]:
    """All that a process has one of."""
    return {
        "switch": sys.getswitchinterval(),
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "policy": asyncio.get_event_loop_policy(),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        "recursion": sys.getrecursionlimit(),
        "path": list(sys.path),
    }


SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def test_a_run_leaves_python_as_it_is(database_url: str, host: None) -> None:
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
    assert [signal.getsignal(each) for each in SIGNALS] == [hosts_own] * 2


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
        # It counted for that run; the next one works.
        await asyncio.wait_for(app.run(signals=False), SECONDS)
    assert ran == [None]


async def test_a_stop_right_after_the_run_was_begun_counts(database_url: str) -> None:
    app = App(database_url, environment={})
    running = asyncio.create_task(app.run(signals=False))
    app.stop()
    await asyncio.wait_for(running, SECONDS)


async def test_a_stop_while_it_starts_counts(
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


async def test_a_plain_handler_may_stop_it(database_url: str) -> None:
    app = App(database_url, environment={}, poll=60)

    @app.handler("work")
    def work(delivery: Delivery[Any]) -> None:
        app.stop()

    async with app:
        accepted = await app.deliver("work")
        await asyncio.wait_for(app.run(signals=False), SECONDS)
        assert (await app.get(accepted.id)).state == "completed"


async def test_a_run_whose_start_fails_says_why(sqlite_url: str, tmp_path: Any) -> None:
    (tmp_path / "duly.db").write_bytes(b"this is no database at all" * 100)
    app = App(sqlite_url, environment={})
    with pytest.raises(Exception, match="not a database"):
        await asyncio.wait_for(app.run(signals=False), SECONDS)


@pytest.mark.requirement("D7", "F5")
async def test_a_file_stays_owned_while_a_thread_of_its_worker_runs_on(sqlite_url: str) -> None:
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
