"""An App inside another program: it leaves signals to the host, and stops when its block ends."""

import asyncio
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from duly import App, Conflict, Delivery, StoreUnavailable
from duly.domain.events import LoopEnded
from duly.errors import BadSetting
from duly.signals import listen_for_signals

SECONDS = 30
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
def restored_signals() -> Iterator[None]:
    """Restore the signal handlers after each test."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def host_handler(_number: int, _frame: object) -> None:
    """The host's own signal handler."""


def handlers() -> list[Any]:
    return [signal.getsignal(each) for each in SIGNALS]


def by_asyncio(number: int) -> None:
    asyncio.get_running_loop().add_signal_handler(number, lambda: None)


def by_python(number: int) -> None:
    signal.signal(number, host_handler)


@pytest.mark.requirement("D13")
@pytest.mark.parametrize("install", [by_python, by_asyncio])
@pytest.mark.parametrize("handled", [(signal.SIGTERM,), (signal.SIGINT,), SIGNALS])
async def test_a_host_that_handles_one_signal_keeps_both(
    sqlite_url: str, install: Any, handled: tuple[int, ...]
) -> None:
    app, seen = App(sqlite_url, environment={}), []
    for number in handled:
        install(number)
    before = handlers()

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        seen.append(handlers())
        app.stop()

    async with app:
        await app.deliver("work")
        await asyncio.wait_for(app.run(), SECONDS)
    assert seen == [before]
    assert handlers() == before
    for number in handled:
        asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.requirement("D13")
async def test_a_signal_stops_every_app_and_an_ignored_signal_stays_ignored(
    sqlite_url: str, postgres_url: str
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    apps = [App(url, environment={}) for url in (sqlite_url, postgres_url)]
    both_running = asyncio.Barrier(3)
    for app in apps:

        @app.handler("work")
        async def work(delivery: Delivery[Any]) -> None:
            await both_running.wait()

    async with asyncio.timeout(SECONDS):
        running = [asyncio.create_task(app.run()) for app in apps]
        for app in apps:
            async with App(app.settings.database, environment={}) as producer:
                producer.expect("work")
                await producer.deliver("work")
        await both_running.wait()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.gather(*running)
    assert handlers() == [signal.SIG_DFL, signal.SIG_IGN]


@pytest.mark.requirement("D13")
async def test_a_host_that_takes_the_signals_later_keeps_them(sqlite_url: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    app = App(sqlite_url, environment={})

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        assert signal.signal(signal.SIGTERM, host_handler) is not signal.SIG_DFL
        app.stop()

    async with app:
        await app.deliver("work")
        await asyncio.wait_for(app.run(), SECONDS)
        assert [each.state for each in await app.list()] == ["completed"]
    assert signal.getsignal(signal.SIGTERM) is host_handler


@pytest.mark.requirement("D13")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_restored_too_late_goes_to_the_previous_handler(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)
    received: list[str] = []
    signal.signal(number, lambda *_: received.append("before"))
    with listen_for_signals(lambda: received.append("first")):
        ours = signal.signal(number, host_handler)
    signal.signal(number, ours)
    signal.raise_signal(number)
    signal.raise_signal(number)
    assert received == ["before", "before"]
    with listen_for_signals(lambda: received.append("second")):
        signal.raise_signal(number)
    assert received[2:] == ["second"]
    assert exits == []


@pytest.mark.requirement("D13")
async def test_a_worker_inside_a_host_runs_until_its_block_ends(database_url: str) -> None:
    app, entered, before = App(database_url, environment={}), asyncio.Event(), handlers()
    left: list[str] = []

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        entered.set()
        await asyncio.sleep(0)
        left.append(delivery.id)

    async with asyncio.timeout(SECONDS):
        async with app.worker() as working:
            assert working is app
            (worker,) = await app.workers.list()
            assert worker.alive
            assert handlers() == before
            with pytest.raises(Conflict, match="works already"):
                async with app.worker():
                    pass
            with pytest.raises(Conflict, match="works already"):
                await app.run()
            accepted = await app.deliver("work")
            await entered.wait()
    assert left == [accepted.id]
    async with app:
        assert (await app.get(accepted.id)).state == "completed"
        assert [each.ended_how for each in await app.workers.list()] == ["stopped"]
        # An app that was open before stays open.
        async with app.worker():
            pass
        assert (await app.get(accepted.id)).state == "completed"


@pytest.mark.requirement("D13")
async def test_a_second_run_during_the_start_does_not_close_the_store(
    database_url: str,
) -> None:
    app, began, refused = App(database_url, environment={}), asyncio.Event(), asyncio.Event()

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        began.set()

    async def first() -> None:
        async with app.worker():
            await refused.wait()
            await app.deliver("work")
            await began.wait()

    async def second() -> None:
        with pytest.raises(Conflict, match="works already"):
            await app.run()
        refused.set()

    async with asyncio.timeout(SECONDS):
        await asyncio.gather(first(), second())


@pytest.mark.requirement("D13")
async def test_concurrent_opens_wait_for_each_other(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, opened = App(database_url, environment={}), 0
    original = app.store.open

    async def count(**options: Any) -> None:
        nonlocal opened
        opened += 1
        await asyncio.tasks.sleep(0)
        if opened == 1:
            raise StoreUnavailable("not yet")
        await original(**options)

    monkeypatch.setattr(app.store, "open", count)
    calls = [app.open(), app.open(), app.open()]
    first, *others = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(first, StoreUnavailable)
    assert (others, opened) == ([None, None], 2)
    async with app.worker():
        pass
    assert await app.list() == []
    await app.close()


@pytest.mark.requirement("D14")
async def test_a_worker_that_cannot_start_fails_at_once(sqlite_url: str, tmp_path: Any) -> None:
    with pytest.raises(BadSetting, match="role: api alone"):
        async with App(sqlite_url, role="api", environment={}).worker():
            pytest.fail("there is nothing to do")
    (tmp_path / "duly.db").write_bytes(b"this is no database at all" * 100)
    with pytest.raises(StoreUnavailable, match="not a database"):
        async with App(sqlite_url, environment={}).worker():
            pytest.fail("there is no store")
    unreachable = App("postgresql://127.0.0.1:9/none", environment={})
    with pytest.raises(StoreUnavailable):
        async with unreachable.worker():
            pytest.fail("there is no server")


@pytest.mark.requirement("D14")
@pytest.mark.parametrize("method", ["run", "worker"])
@pytest.mark.parametrize("end", ["cancelled", "raised"])
async def test_an_engine_that_ended_by_itself_is_reported(
    sqlite_url: str, method: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, noticed = App(sqlite_url, environment={}), asyncio.Event()
    emit = app.telemetry.emit

    def record(event: Any) -> None:
        emit(event)
        if isinstance(event, LoopEnded):
            noticed.set()
        elif end == "raised" and type(event).__name__ == "LoopFailed":
            raise ValueError("a log that cannot be written")

    app.telemetry.emit = record  # type: ignore[method-assign]

    def break_it() -> None:
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "recovery")
        if end == "cancelled":
            task.cancel()
        else:
            coroutine = task.get_coro()
            loop = coroutine.cr_frame.f_locals["loop"]  # type: ignore[union-attr]
            monkeypatch.setattr(loop, "tick", broken)
            loop.wake.set()

    async def broken() -> None:
        raise KeyError("an internal error")

    async with asyncio.timeout(SECONDS):
        with pytest.raises(RuntimeError, match=r"loop 'recovery' ended by itself"):
            await (_running(app, break_it) if method == "run" else _inside(app, break_it, noticed))
    assert app.telemetry.counts["LoopEnded"] == 1


async def _running(app: App, break_it: Any) -> None:
    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        break_it()

    async with app:
        await app.deliver("work")
        await app.run()


async def _inside(app: App, break_it: Any, noticed: asyncio.Event) -> None:
    async with app.worker():
        break_it()
        await noticed.wait()
