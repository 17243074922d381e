"""Whole programs that use `app.sync`: scripts, threads, forks, interruptions, and their ends."""

import signal
from pathlib import Path

import pytest

from tests.services.sync.programs import complaints, run, start

pytestmark = pytest.mark.requirement("P2")


def test_a_script_delivers_and_ends_without_a_warning(tmp_path: Path, database_url: str) -> None:
    printed = run(
        tmp_path,
        """
        @app.handler
        async def weekly(team: int) -> None: ...

        weekly.sync.deliver(7)
        weekly.using(after=30).sync.deliver(8)
        weekly.sync.deliver_many(weekly.item(team) for team in (9, 10))
        print(sorted(each.payload["team"] for each in app.sync.list()))
        """,
        database_url,
    )
    assert printed == ["[7, 8, 9, 10]"]


def test_a_script_ends_with_open_blocks_and_iterators(tmp_path: Path, database_url: str) -> None:
    printed = run(
        tmp_path,
        """
        app.sync.deliver("work")
        listening = app.sync.stats.live.listen()
        print(next(listening).due)
        block = app.sync.transaction()
        tx = block.__enter__()
        app.sync.deliver("work", connection=tx)
        """,
        database_url,
    )
    assert printed == ["1"]


def test_an_error_of_a_script_does_not_keep_it(tmp_path: Path, sqlite_url: str) -> None:
    with start(tmp_path, "app.sync.deliver('work')\n1 / 0", sqlite_url) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.endswith("ZeroDivisionError: division by zero\n")
    assert "Warning" not in err


def test_threads_may_outlive_the_main_thread(tmp_path: Path, database_url: str) -> None:
    printed = run(
        tmp_path,
        """
        import threading

        def late():
            threading.main_thread().join()
            app.sync.deliver("work")
            print(len(app.sync.list()))

        threading.Thread(target=late).start()
        """,
        database_url,
    )
    assert printed == ["1"]


def test_a_handler_at_exit_may_still_deliver(tmp_path: Path, database_url: str) -> None:
    printed = run(
        tmp_path,
        """
        import atexit

        app.sync.deliver("work")
        atexit.register(lambda: print(app.sync.deliver("work").state, len(app.sync.list())))
        """,
        database_url,
    )
    assert printed == ["pending 2"]


def test_a_forked_child_opens_its_own_connections(tmp_path: Path, database_url: str) -> None:
    printed = run(
        tmp_path,
        """
        import os

        app.sync.deliver("work")
        pid = os.fork()
        for _ in range(20):
            app.sync.deliver("work")
        if not pid:
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        print(len(app.sync.list(limit=100)))
        """,
        database_url,
    )
    assert printed == ["41"]


def test_processes_of_multiprocessing_share_an_app(tmp_path: Path, database_url: str) -> None:
    printed = run(
        tmp_path,
        """
        import multiprocessing

        def deliver(number):
            return app.sync.deliver("work", number).id

        if __name__ == "__main__":
            app.sync.deliver("work")
            with multiprocessing.get_context("fork").Pool(3) as pool:
                ids = set(pool.map(deliver, range(30)))
                pool.close()
                pool.join()
            print(len(ids), len(app.sync.list(limit=100)))
        """,
        database_url,
    )
    assert printed == ["30 31"]


def test_a_fork_while_threads_call_loses_no_call(tmp_path: Path, database_url: str) -> None:
    printed = run(
        tmp_path,
        """
        import os, threading, warnings

        # Newer versions of Python warn of every fork beside threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        stop, calls = threading.Event(), []

        def call():
            while not stop.is_set():
                calls.append(app.sync.deliver("work", after=3600).id)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for each in threads:
            each.start()
        while len(calls) < 20:
            app.sync.list(limit=1)
        for _ in range(5):
            pid = os.fork()
            if not pid:
                app.sync.deliver("work", after=3600)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for each in threads:
            each.join()
        print(app.sync.deliveries.count() - len(calls))
        """,
        database_url,
    )
    assert printed == ["5"]


def test_a_child_of_a_fork_within_a_block_is_told_and_harms_nothing(
    tmp_path: Path, database_url: str
) -> None:
    printed = run(
        tmp_path,
        """
        import os, warnings

        warnings.simplefilter("ignore", DeprecationWarning)
        with app.sync.transaction() as tx:
            app.sync.deliver("work", connection=tx)
            pid = os.fork()
            if not pid:
                try:
                    app.sync.deliver("work")
                except duly.StoreUnavailable as error:
                    print(error, flush=True)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            app.sync.deliver("work", connection=tx)
        print(len(app.sync.list()))
        """,
        database_url,
    )
    assert "make a new App" in printed[0]
    assert printed[1:] == ["2"]


def test_ctrl_c_cancels_the_call_that_waits(tmp_path: Path, database_url: str) -> None:
    text = """
    import threading

    held = app.sync.transaction()  # on PostgreSQL of a lock, on SQLite of the writer
    tx = held.__enter__()
    lock = "create table locked (value integer)"
    tx.execute(lock)

    def announce():
        print("waiting", flush=True)

    app.sync.deliver("work", connection=tx, key="taken")

    def wait():
        announce()
        app.sync.deliver("work", key="taken")

    from contextvars import Context
    try:
        Context().run(wait)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    held.__exit__(None, None, None)
    print([each.key for each in app.sync.list()])
    """
    with start(tmp_path, text, database_url) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (out.splitlines(), complaints(err)) == (["interrupted", "['taken']"], [])
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_works_until_a_signal(tmp_path: Path, database_url: str, number: int) -> None:
    text = """
    @app.handler("report")
    def report(delivery: duly.Delivery) -> None:
        app.sync.deliver("work", connection=delivery.transaction)
        print("running", flush=True)

    app.sync.deliver("report")
    app.sync.run()
    print(sorted(each.state.value for each in app.sync.list()))
    """
    with start(tmp_path, text, database_url) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (out, complaints(err)) == ("['completed', 'pending']\n", [])
    assert process.returncode == 0
