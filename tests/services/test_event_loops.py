"""An App belongs to one event loop at a time; use from another loop is refused."""

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakSet

import pytest

import duly
from duly import App, Delivery
from duly.errors import OtherEventLoop

SECONDS = 30
pytestmark = pytest.mark.requirement("D1")
REFUSAL = r"event loop; .* asyncio\.to_thread\(app\.sync\.deliver, "


async def opens(app: App) -> None:
    async with app:
        pass


async def transacts(app: App) -> None:
    async with app.transaction() as tx:
        await tx.execute("select 1")


async def receives(app: App) -> None:
    async with app.receive("1", "billing"):
        pass


async def works(app: App) -> None:
    async with app.worker():
        pass


USES: dict[str, Callable[[App], Awaitable[Any]]] = {
    "open": opens,
    "close": App.close,
    "run": App.run,
    "worker": works,
    "deliver": lambda app: app.deliver("work"),
    "deliver with a key": lambda app: app.deliver("work", key="a"),
    "deliver_many": lambda app: app.deliver_many([("work", 1)]),
    "deliver_each": lambda app: app.deliver_each([("work", 1)]),
    "list": lambda app: app.list(),
    "schedule": lambda app: app.schedule("often", duly.every("1h"), "work"),
    "endpoints": lambda app: app.endpoints.add("there", "https://example.org/"),
    "another namespace": lambda app: app.within("other").list(),
    "listen": lambda app: anext(app.stats.live.listen()),
    "transaction": transacts,
    "receive": receives,
}


def use_in_own_loop(use: Callable[[App], Awaitable[Any]], app: App) -> str:
    """The result of a use in an event loop of its own."""

    async def main() -> None:
        async with asyncio.timeout(SECONDS):
            await use(app)

    try:
        asyncio.run(main())
    except duly.DulyError as error:
        return str(error)
    return "done"


async def test_every_use_from_another_loop_is_refused_and_does_no_harm(database_url: str) -> None:
    app, done = App(database_url, environment={}), asyncio.Event()

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        done.set()

    async with app:
        for name, use in USES.items():
            result = await asyncio.to_thread(use_in_own_loop, use, app)
            assert re.search(REFUSAL, result), f"{name}: {result}"
        assert await app.list() == []
        async with asyncio.timeout(SECONDS), app.worker():
            await app.deliver("work")
            await done.wait()


def test_of_many_threads_with_a_loop_each_none_hangs(database_url: str) -> None:
    app, together = App(database_url, environment={}), threading.Barrier(6)
    app.expect("work")

    async def main() -> int:
        together.wait(SECONDS)
        async with app:
            for number in range(20):
                await app.deliver("work", number)
        return 20

    def one(_: int) -> int:
        try:
            return asyncio.run(main())
        except OtherEventLoop:
            return 0

    with ThreadPoolExecutor(6) as threads:
        stored = list(threads.map(one, range(6), timeout=SECONDS))

    async def count() -> int:
        async with app:
            return len(await app.list(limit=500))

    assert set(stored) <= {0, 20}
    assert asyncio.run(count()) == sum(stored) >= 20


def test_loops_can_use_an_app_one_after_the_other(database_url: str) -> None:
    app = App(database_url, environment={})
    app.expect("work")

    async def main() -> int:
        async with app:
            await app.deliver("work")
            return len(await app.list())

    assert [asyncio.run(main()) for _ in range(3)] == [1, 2, 3]


def test_a_closed_app_is_bound_to_no_loop(database_url: str) -> None:
    """Checks every object of an App: one that belongs to the old loop fails in the new loop."""
    app = App(database_url, environment={})

    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        done.set()

    async def main() -> int:
        nonlocal done
        done = asyncio.Event()
        async with asyncio.timeout(SECONDS), app.worker():
            await asyncio.gather(app.deliver("work"), app.deliver("work", key="a"))
            await app.series(60)
            await done.wait()
        locks = [each for each in parts(app) if isinstance(each, asyncio.Lock)]
        for lock in locks:
            async with lock:
                waiting = asyncio.create_task(lock.acquire())
                await asyncio.sleep(0)
            await waiting
            lock.release()
        # A closed App may be opened again, so it is closed after its locks were contended.
        async with app:
            pass
        loop = asyncio.get_running_loop()
        bound = [each for each in parts(app) if getattr(each, "_loop", None) is loop]
        assert [each for each in bound if not _is_over(each)] == []
        return len(locks)

    done = asyncio.Event()
    first, second = (asyncio.run(main()) for _ in range(2))
    assert first == second >= 2


def _is_over(part: object) -> bool:
    return isinstance(part, asyncio.Future) and part.done()


def parts(whole: object) -> list[object]:
    """Every object that an object of ours holds, through attributes and containers."""
    found: dict[int, object] = {}
    todo: list[object] = [whole]
    while todo:
        part = todo.pop()
        if id(part) in found:
            continue
        found[id(part)] = part
        if isinstance(part, dict):
            todo += part.values()
        elif isinstance(part, list | tuple | set | frozenset | WeakSet):
            todo += part
        elif type(part).__module__.startswith("duly"):
            names = [each for kind in type(part).__mro__ for each in getattr(kind, "__slots__", ())]
            todo += [*getattr(part, "__dict__", {}).values()]
            todo += [getattr(part, name) for name in names if hasattr(part, name)]
    return list(found.values())


def test_an_app_whose_loop_ended_before_it_was_closed_is_an_error(sqlite_url: str) -> None:
    app = App(sqlite_url, environment={})
    asyncio.run(app.open())
    assert "ended before the App was closed" in use_in_own_loop(USES["list"], app)


async def test_the_remedy_of_the_error_works(database_url: str) -> None:
    app, done = App(database_url, environment={}), asyncio.Event()

    async def elsewhere() -> None:
        await asyncio.to_thread(app.sync.deliver, "second")

    @app.handler("first")
    def first(delivery: Delivery[Any]) -> None:
        app.sync.deliver("second")
        asyncio.run(elsewhere())

    @app.handler("second")
    async def second(delivery: Delivery[Any]) -> None:
        seen.append(delivery.id)
        if len(seen) == 2:
            done.set()

    seen: list[str] = []

    async with asyncio.timeout(SECONDS), app.worker():
        await app.deliver("first")
        await done.wait()
