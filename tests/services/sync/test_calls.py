"""Calls under `app.sync` from threads without an event loop."""

import _thread
import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.stores.sqlite.database import Sqlite
from duly.sync.background import BACKGROUND
from duly.sync.calls import Call, Calls
from duly.sync.namespace import SyncApp

SECONDS = 30
pytestmark = pytest.mark.requirement("P2")


@pytest.fixture
def app(database_url: str) -> Iterator[App]:
    """An App that nothing has opened, with a handler; closed at the end."""
    made = App(database_url, environment={})
    made.expect("work")
    yield made
    made.sync.close()


def create_table(app: App) -> str:
    """Make a table, and return the statement that writes to it."""
    with app.sync.transaction() as tx:
        tx.execute("create table effects (value integer)")
    is_sqlite = isinstance(app.store.database, Sqlite)  # type: ignore[attr-defined]
    return f"insert into effects values ({'?' if is_sqlite else '$1'})"


def effects(app: App) -> list[int]:
    with app.sync.transaction() as tx:
        return [row[0] for row in tx.fetch("select value from effects order by value")]


def test_the_first_call_opens_the_app(app: App) -> None:
    accepted = app.sync.deliver("work", {"n": 1}, key="one")
    assert app.sync.deliveries.get(accepted.id).payload == {"n": 1}
    assert [each.id for each in app.sync.list()] == [accepted.id]
    assert app.sync.deliver("work", {"n": 1}, key="one").known


def test_errors_have_the_classes_of_the_async_form(app: App) -> None:
    app.sync.deliver("work", 1, key="one")
    with pytest.raises(duly.Conflict, match="key"):
        app.sync.deliver("work", 2, key="one")
    with pytest.raises(duly.NotFound, match="no schedule 'monday'"):
        app.sync.schedules.pause("monday")
    with pytest.raises(duly.InvalidInput, match="priority"):
        app.sync.deliver("work", priority=99)
    with pytest.raises(TypeError, match="afer"):
        app.sync.deliver("work", afer=1)  # type: ignore[call-arg]
    app.sync.close()
    with pytest.raises(duly.NotFound):
        app.sync.endpoints.get("a closed App is opened again")


def test_an_app_that_cannot_be_opened_says_so_each_time(tmp_path: Any) -> None:
    app = App(f"sqlite:///{tmp_path}/none/duly.db", environment={})
    for _ in range(2):
        with pytest.raises(duly.BadSetting, match="does not exist"):
            app.sync.list()


def test_many_threads_share_one_app_and_its_commits(app: App) -> None:
    def deliver(number: int) -> str:
        return app.sync.deliver("work", number).id

    with ThreadPoolExecutor(16) as threads:
        ids = set(threads.map(deliver, range(200), timeout=SECONDS))
    assert {each.id for each in app.sync.list(limit=500)} == ids
    assert len(ids) == 200
    assert len([each for each in threading.enumerate() if each.name == "duly-sync"]) == 1


def test_a_delivery_to_a_known_target_needs_no_task(app: App) -> None:
    app.sync.deliver("work")
    made: list[object] = []

    def note(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    BACKGROUND.loop.call_soon_threadsafe(BACKGROUND.loop.set_task_factory, note)
    try:
        for number in range(3):
            app.sync.deliver("work", number)
    finally:
        BACKGROUND.loop.call_soon_threadsafe(BACKGROUND.loop.set_task_factory, None)
    names = {each.__qualname__ for each in made}  # type: ignore[attr-defined]
    assert "AcceptBatch._write" in names
    assert "Call.run" not in names
    assert app.sync.deliveries.count() == 4


def test_what_can_be_read_once_is_read_once(app: App) -> None:
    first = app.sync.deliver("work", tags=(each for each in ("a", "b")))
    second = app.sync.deliver("work", tags=(each for each in ("c",)))
    assert app.sync.deliveries.get(first.id).tags == ["a", "b"]
    assert app.sync.deliveries.get(second.id).tags == ["c"]


def test_an_app_with_a_deliver_of_its_own_is_asked_each_time(database_url: str) -> None:
    class Tagging(App):
        async def deliver(self, target: Any, payload: Any = None, **options: Any) -> Any:
            return await super().deliver(target, payload, **options, tags=["own"])

    app = Tagging(database_url, environment={})
    app.expect("work")
    for _ in range(2):
        assert app.sync.deliveries.get(app.sync.deliver("work").id).tags == ["own"]
    app.sync.close()


def test_a_call_that_fails_as_it_is_cancelled_holds_up_no_other() -> None:
    loop = asyncio.new_event_loop()
    calls = Calls(loop)

    def fail(call: Call[Any]) -> bool:
        calls.cancel(call)  # before the answer, as if its thread was interrupted just now
        raise ValueError("no")

    def answer(call: Call[Any]) -> bool:
        call.set_result("yes")
        return True

    async def unused() -> str:
        return "not put"

    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(calls.run, unused, None, put) for put in (fail, answer)]
        while len(calls._waiting) < len(waiting):
            pass
        running = threading.Thread(target=loop.run_forever)
        running.start()
        assert waiting[1].result(SECONDS) == "yes"
        with pytest.raises(ValueError, match="no"):
            waiting[0].result(SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    running.join(SECONDS)
    loop.close()


def test_an_interrupted_delivery_is_over_and_the_app_goes_on(sqlite_url: str) -> None:
    app, main = App(sqlite_url, environment={}), threading.get_ident()
    app.expect("work")
    app.sync.deliver("work")
    holds, is_interrupted = threading.Event(), threading.Event()

    def hold() -> None:
        with app.sync.transaction():  # no other write gets its answer
            holds.set()
            while sys._current_frames()[main].f_code is not Call.wait.__code__:
                pass
            _thread.interrupt_main()
            is_interrupted.wait(SECONDS)

    with ThreadPoolExecutor(1) as thread:
        holding = thread.submit(hold)
        holds.wait(SECONDS)
        with pytest.raises(KeyboardInterrupt):
            app.sync.deliver("work")
        is_interrupted.set()
        holding.result(SECONDS)
    app.sync.deliver("work")
    # It waits for all calls in progress.
    asyncio.run(opened_and_closed(app))
    # The interrupted one may have been accepted, as a cancelled coroutine may.
    assert app.sync.deliveries.count() in (2, 3)
    app.sync.close()


def test_a_context_manager_opens_and_closes(app: App) -> None:
    with app.sync as opened:
        assert isinstance(opened, SyncApp)
        assert app.store.event_loop is BACKGROUND.loop
    assert app.store.event_loop is None


def test_iterators_are_plain_and_lazy(app: App) -> None:
    app.sync.deliver_many(("work", n) for n in range(3))
    (progress,) = app.sync.deliveries.cancel_all()
    assert (progress.done, progress.total) == (3, 3)
    app.sync.schedule("daily", duly.every("1d"), "work")
    end = datetime(2026, 1, 1, tzinfo=UTC)
    start = end - timedelta(days=1000)
    runs = app.sync.schedules.count_backfill("daily", start, end)
    begun = app.sync.schedules.backfill("daily", start, end)
    made = next(begun)
    assert app.sync.deliveries.count(schedule="daily") == 1 + made < runs
    list(begun)
    assert app.sync.deliveries.count(schedule="daily") == 1 + runs > 999
    with pytest.raises(duly.NotFound):
        list(app.sync.schedules.backfill("nightly", start, end))


def test_an_iterator_that_nobody_reads_does_not_keep_the_app(app: App) -> None:
    app.sync.deliver("work")
    abandoned = app.sync.deliveries.cancel_all()
    del abandoned
    asyncio.run(opened_and_closed(app))
    assert app.sync.deliveries.count() == 1


async def opened_and_closed(app: App) -> None:
    async with asyncio.timeout(SECONDS), app:
        pass


def test_items_are_generated_in_the_calling_thread(app: App) -> None:
    here = threading.get_ident()

    def items() -> Iterator[tuple[str, int]]:
        for number in range(3):
            assert threading.get_ident() == here
            app.sync.deliver("work", "from the generator")  # would be refused on the event loop
            yield "work", number

    assert len(app.sync.deliver_many(items())) == 3
    kinds = [type(each).__name__ for each in app.sync.deliver_each([*items(), ("none", 1)])]
    assert kinds == ["Accepted"] * 3 + ["InvalidInput"]
    assert app.sync.deliveries.count() == 12


def test_a_transaction_is_a_plain_block(app: App) -> None:
    insert = create_table(app)
    with app.sync.transaction() as tx:
        tx.execute(insert, 1)
        app.sync.deliver("work", 1, connection=tx)
        app.sync.schedule("daily", duly.every("1d"), "work", connection=tx)
    with suppress(ZeroDivisionError), app.sync.transaction() as tx:
        tx.execute(insert, 2)
        app.sync.deliver("work", 2, connection=tx)
        raise ZeroDivisionError
    assert effects(app) == [1]
    assert [each.payload for each in app.sync.list(target="work", schedule=None)][-1] == 1
    assert app.sync.schedules.count() == 1
    with pytest.raises(duly.Conflict, match="over"):
        tx.fetch("select 1")


def test_a_write_beside_the_own_transaction_is_refused_and_does_not_hang(sqlite_url: str) -> None:
    app = App(sqlite_url, environment={})
    app.expect("work")
    with app.sync, app.sync.transaction() as tx:
        with pytest.raises(duly.Conflict, match="connection="):
            app.sync.deliver("work")
        app.sync.deliver("work", connection=tx)
    assert app.sync.deliveries.count() == 1
    app.sync.close()


def test_a_second_transaction_of_a_thread_is_refused(postgres_url: str) -> None:
    app = App(postgres_url, environment={})
    refused = pytest.raises(duly.Conflict, match="in a transaction already")
    with app.sync, app.sync.transaction(), refused:
        app.sync.transaction().__enter__()


def test_a_message_is_received_once(app: App) -> None:
    insert = create_table(app)
    results = []
    for attempt in range(2):
        with app.sync.receive("m-1", "billing") as message:
            if message.is_new:
                message.execute(insert, attempt)
                message.keep({"invoice": message.fetch("select value from effects")[0][0]})
                app.sync.deliver("work", connection=message)
            results.append((message.id, message.consumer, message.result))
    assert results == [("m-1", "billing", {"invoice": 0})] * 2
    assert (effects(app), app.sync.deliveries.count()) == ([0], 1)


def test_another_namespace_and_actor(app: App) -> None:
    other = app.sync.within("other")
    app.within("other").expect("work")
    with pytest.raises(duly.NotFound):
        other.schedules.get("daily")
    app.sync.acting_as("ada").schedule("daily", duly.every("1d"), "work")
    app.acting_as("bob").sync.schedules.pause("daily")
    assert {each.actor for each in app.sync.audit.list()} == {"ada", "bob"}
    assert app.within("other").sync.schedules.list() == []


seen: ContextVar[str] = ContextVar("seen", default="nothing")


def test_context_variables_go_in_and_come_back(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def probe(id: str) -> str:
        before = seen.get()
        seen.set(id)
        return before

    def use() -> list[str]:
        return [app.sync.deliveries.get("x"), app.sync.deliveries.get("y"), seen.get()]  # type: ignore[list-item]

    monkeypatch.setattr(app.deliveries, "get", probe)
    assert copy_context().run(use) == ["nothing", "x", "y"]


MISUSES: dict[str, tuple[Callable[[App], Any], str]] = {
    "deliver": (lambda app: app.sync.deliver("work"), "await app.deliver(...)"),
    "deliver_many": (lambda app: app.sync.deliver_many(refused()), "await app.deliver_many(...)"),
    "get": (lambda app: app.sync.deliveries.get("x"), "await app.deliveries.get(...)"),
    "stats": (lambda app: app.sync.stats(), "await app.stats(...)"),
    "open": (lambda app: app.sync.open(), "await app.open()"),
    "close": (lambda app: app.sync.close(), "await app.close()"),
    "run": (lambda app: app.sync.run(), "await app.run()"),
    "cancel_all": (
        lambda app: app.sync.deliveries.cancel_all(),
        "async for ... in app.deliveries.cancel_all(...)",
    ),
    "transaction": (
        lambda app: app.sync.transaction().__enter__(),
        "async with app.transaction(...)",
    ),
    "handler": (
        lambda app: app.handler(weekly).sync.deliver(7),
        "await weekly.deliver(...)",
    ),
    "using": (
        lambda app: app.handler(weekly).using(after=1).sync.deliver(7),
        "await weekly.using(...).deliver(...)",
    ),
}


def refused() -> Iterator[Any]:
    raise AssertionError("items of a refused call were generated")
    yield


def weekly(team: int) -> None: ...


@pytest.mark.parametrize("name", MISUSES)
def test_a_call_on_an_event_loop_says_what_to_write_and_does_nothing(name: str, app: App) -> None:
    use, remedy = MISUSES[name]

    async def misuse() -> None:
        with pytest.raises(duly.Conflict) as caught:
            use(app)
        assert f"write `{remedy}`" in str(caught.value)

    asyncio.run(misuse())
    assert app.store.event_loop is None
    assert app.sync.deliveries.count() == 0


def test_an_app_that_works_in_another_thread_is_called_on_its_loop(app: App) -> None:
    loops: list[Any] = []

    async def serve() -> None:
        async with asyncio.timeout(SECONDS), app.worker():
            loops.append(asyncio.get_running_loop())
            await asyncio.gather(*(asyncio.to_thread(call, n) for n in range(8)))
            loops.append(app.store.event_loop)

    def call(number: int) -> None:
        accepted = app.sync.deliver("work", number, after=3600)
        with app.sync.transaction() as tx:
            app.sync.deliver("work", number, connection=tx, after=3600)
        assert app.sync.get(accepted.id).payload == number

    asyncio.run(serve())
    assert loops[0] is loops[1]
    assert app.sync.deliveries.count() == 16


def test_an_open_app_is_handed_over_to_the_loop_that_opens_it(app: App) -> None:
    done = threading.Event()

    @app.handler("report")
    async def report(delivery: Delivery[Any]) -> None:
        done.set()
        app.stop()

    app.sync.deliver("report")
    assert app.store.event_loop is BACKGROUND.loop
    asyncio.run(asyncio.wait_for(app.run(signals=False), SECONDS))
    assert done.is_set()
    asyncio.run(opened_and_closed(app))
    assert app.sync.list()[0].state == "completed"


def test_an_app_is_handed_over_while_threads_call(app: App) -> None:
    app.sync.deliver("work")
    stop = threading.Event()

    def call() -> int:
        calls = 0
        while not stop.is_set():
            app.sync.deliver("work", after=3600)
            calls += 1
        return calls

    async def opened() -> None:
        for _ in range(5):
            async with asyncio.timeout(SECONDS), app.worker():
                assert app.store.event_loop is asyncio.get_running_loop()

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(call) for _ in range(4)]
        try:
            asyncio.run(opened())
        finally:
            stop.set()
        lost = [each.exception(SECONDS) for each in running]
    # A call that was in progress when its loop ended says so; no other error, and none hangs.
    assert all(isinstance(each, duly.StoreUnavailable | None) for each in lost), lost


def test_an_app_in_a_block_is_not_handed_over(app: App) -> None:
    with app.sync.transaction() as tx:
        with pytest.raises(duly.Conflict, match=r"app\.sync in another thread"):
            asyncio.run(opened_and_closed(app))
        assert tx.fetch("select 1") == [(1,)]
    asyncio.run(opened_and_closed(app))


def test_a_worker_runs_in_the_background_of_a_program(app: App) -> None:
    done = threading.Event()

    @app.handler("report")
    def report(delivery: Delivery[Any]) -> None:
        done.set()

    with app.sync.worker() as working:
        working.deliver("report")
        assert done.wait(SECONDS)
    assert app.store.event_loop is None


def test_an_app_whose_loop_does_not_run_is_refused(sqlite_url: str) -> None:
    app, loop = App(sqlite_url, environment={}), asyncio.new_event_loop()
    loop.run_until_complete(app.open())
    with pytest.raises(duly.Conflict, match="not running"):
        app.sync.list()
    loop.run_until_complete(app.close())
    loop.close()


async def test_an_app_with_a_pool_is_opened_on_its_own_loop_first(postgres_url: str) -> None:
    import asyncpg

    async with asyncpg.create_pool(postgres_url, min_size=1, max_size=8) as pool:
        app = App(pool=pool, environment={})
        with pytest.raises(duly.Conflict, match="open the App there first"):
            await asyncio.to_thread(app.sync.list)
        async with app:
            assert await asyncio.to_thread(app.sync.list) == []
