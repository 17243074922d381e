"""A second SQLite library in the process, or a fork of it, is refused and damages nothing.

`sqlite3` is the second library. It is refused when it connects to the file; a test that needs a
connection attaches the file to a database in memory.
"""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from duly import App, Delivery
from duly.errors import Conflict, StoreUnavailable
from duly.stores.sqlite import guard
from duly.stores.sqlite.database import Sqlite
from duly.stores.sqlite.guard import descriptors_of, identity_of

pytestmark = pytest.mark.requirement("D1")


@pytest.fixture
def path(sqlite_url: str) -> Path:
    return Path(sqlite_url.removeprefix("sqlite:///"))


@pytest.fixture
async def app(sqlite_url: str) -> AsyncIterator[App]:
    found = App(sqlite_url, environment={})
    found.handler("work")(_nothing)
    async with found:
        yield found


async def _nothing(delivery: Delivery[None]) -> None:
    """Do nothing."""


def attached(path: Path) -> sqlite3.Connection:
    """A connection of the second library that was not refused, and has read."""
    connection = sqlite3.connect(":memory:")
    connection.execute("attach ? as it", (str(path),))
    connection.execute("select count(*) from it.sqlite_schema").fetchall()
    return connection


def file_of(app: App) -> Any:
    database = app.store.database
    assert isinstance(database, Sqlite)
    return database._file


ALTERNATE = """
import asyncio, sqlite3, subprocess, sys
from duly import App
from duly.errors import StoreUnavailable

COUNT = '''
import sys, apsw
file = apsw.Connection(sys.argv[1])
count = lambda table: file.execute(f"select count(*) from {table}").fetchall()[0][0]
print(count("duly_deliveries"), count("mine"), file.pragma("quick_check"))
'''

def mine(path, n):
    second = sqlite3.connect(":memory:", isolation_level=None)
    second.execute("attach ? as it", (path,))
    if n % 2:
        second.execute("insert into it.mine values (?)", (n,))
    second.execute("select count(*) from it.mine").fetchall()
    second.close()

async def main(path):
    app, acknowledged = App(f"sqlite:///{path}", environment={}), 0
    @app.handler("work")
    async def work(delivery): ...
    async with app:
        async with app.transaction() as transaction:
            await transaction.execute("create table mine (x)")
        for n in range(40):
            try:
                await app.deliver("work", n)
                acknowledged += 1
            except StoreUnavailable:
                pass
            mine(path, n)
        seen = subprocess.run([sys.executable, "-c", COUNT, path], capture_output=True, text=True)
        print(acknowledged, 20, "ok")
        print(seen.stdout.strip() or seen.stderr)

asyncio.run(main(sys.argv[1]))
"""


def run(program: str, path: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there are no such locks")
def test_closing_another_library_loses_no_delivery(path: Path) -> None:
    acknowledged, seen = run(ALTERNATE, path)
    assert seen == acknowledged
    assert int(acknowledged.split()[0]) > 1


def test_without_protection_closing_another_library_loses_rows(tmp_path: Path) -> None:
    """Shows that the test above can fail."""
    path = tmp_path / "plain.db"
    with closing(apsw.Connection(str(path))) as plain:
        plain.execute("pragma journal_mode=wal; create table mine (x)").fetchall()
        for n in range(5):
            plain.execute("insert into mine values (?)", (n,))
            attached(path).close()
        with closing(sqlite3.connect(path)) as seen:
            assert seen.execute("select count(*) from mine").fetchall() == [(1,)]


SPELLINGS = {
    "path": lambda path: (path, False),
    "text": lambda path: (str(path), False),
    "bytes": lambda path: (os.fsencode(path), False),
    "relative": lambda path: (os.path.relpath(path), False),
    "dots": lambda path: (f"{path.parent}/../{path.parent.name}/{path.name}", False),
    "address": lambda path: (f"file:{path}", True),
    "long address": lambda path: (f"file://{path}?mode=ro&cache=private", True),
    "escaped address": lambda path: (f"file:{path.parent}/%64uly.db#part", True),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_sqlite3_is_refused_for_every_form_of_the_path(
    app: App, path: Path, spelling: str
) -> None:
    name, is_address = SPELLINGS[spelling](path)
    with pytest.raises(Conflict, match=r"two SQLite libraries.*app\.transaction\(\)"):
        sqlite3.connect(name, uri=is_address)
    assert await app.deliver("work")


async def test_sqlite3_is_refused_under_another_name_of_the_file(app: App, path: Path) -> None:
    link, twin = path.with_name("link.db"), path.with_name("twin.db")
    link.symlink_to(path)
    os.link(path, twin)
    for name in (link, twin):
        with pytest.raises(Conflict, match="two SQLite libraries"):
            sqlite3.connect(name)


async def test_sqlite3_may_open_other_files_and_this_one_after_it_is_closed(
    sqlite_url: str, path: Path
) -> None:
    async with App(sqlite_url, environment={}), App(sqlite_url, environment={}):
        for name in (":memory:", "", path.with_name("own.db")):
            sqlite3.connect(name).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("select count(*) from duly_deliveries").fetchall()
    async with App(sqlite_url, environment={}) as app:
        assert await app.list() == []


async def test_closing_one_app_leaves_the_other_protected(sqlite_url: str, app: App) -> None:
    async with App(sqlite_url, environment={}):
        pass
    with pytest.raises(Conflict, match="two SQLite libraries"):
        sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))


async def test_a_file_that_another_library_has_open_is_not_opened(
    sqlite_url: str, path: Path
) -> None:
    app = App(sqlite_url, environment={})
    with closing(sqlite3.connect(path)) as connection:
        with pytest.raises(StoreUnavailable, match="two SQLite libraries"):
            await app.open()
        connection.execute("pragma journal_mode=wal").fetchall()
        connection.execute("select count(*) from duly_deliveries").fetchall()
        with pytest.raises(StoreUnavailable, match="two SQLite libraries"):
            await app.open()
    async with app:
        assert await app.list() == []


async def test_nothing_is_accepted_while_another_library_has_the_file_open(
    app: App, path: Path
) -> None:
    with closing(attached(path)):
        file_of(app).look()
        with pytest.raises(StoreUnavailable, match="two SQLite libraries"):
            await app.deliver("work")
        with pytest.raises(StoreUnavailable, match="two SQLite libraries"):
            await app.list()
    file_of(app).look()
    assert await app.deliver("work")


async def test_the_check_is_repeated_automatically(app: App, path: Path) -> None:
    file, checked = file_of(app), threading.Event()
    look = file.look

    def noted() -> None:
        look()
        if file._problem:
            checked.set()

    file.look = noted
    with closing(attached(path)):
        assert await asyncio.get_running_loop().run_in_executor(None, checked.wait, 30)
        with pytest.raises(StoreUnavailable, match="two SQLite libraries"):
            await app.deliver("work")


async def test_our_own_connections_are_not_taken_for_another_library(
    app: App, sqlite_url: str
) -> None:
    async with App(sqlite_url, environment={}) as other:
        await asyncio.gather(*(each.list() for each in (app, other) for _ in range(8)))
        async with app.store.database.snapshot() as snapshot:
            await snapshot.fetch_named("agenda.survey", served=None)
            file_of(app).look()
            await app.deliver("work")
        file_of(other).look()
        assert len(await other.list()) == 1


async def test_without_a_list_of_descriptors_it_works_unprotected(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.setattr(guard, "DESCRIPTOR_FOLDERS", ("/nowhere",))
    app = App(sqlite_url, environment={})
    app.handler("work")(_nothing)
    async with app:
        file_of(app).look()
        assert await app.deliver("work")
    assert [each.name for each in path.parent.glob("duly.db*")] == ["duly.db"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there are no such locks")
async def test_reading_the_files_in_this_process_loses_no_lock(app: App, path: Path) -> None:
    """Closing any descriptor drops the process's locks; then the next close removed the log."""
    await app.deliver("work")
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).read_bytes()
    for _ in range(2):
        checked = "import sys, apsw; apsw.Connection(sys.argv[1]).pragma('user_version')"
        run(checked, path)
        await app.deliver("work")
    assert len(await app.list()) == 3


FORK = """
import asyncio, os, signal, sys
from duly import App
from duly.errors import StoreUnavailable

async def tried(name, call):
    try:
        await call
        print(name, "succeeded", flush=True)
    except StoreUnavailable as error:
        print(name, error, flush=True)

async def child(app, path):
    await tried("write", app.deliver("work", 1))
    await tried("read", app.list())
    await tried("hold", app.store.begin())
    await tried("open", App(f"sqlite:///{path}", environment={}).open())
    await app.store.close()

async def main(path):
    app = App(f"sqlite:///{path}", environment={})
    @app.handler("work")
    async def work(delivery): ...
    async with app:
        await app.deliver("work", 0)
        await app.list()
        number = os.fork()
        if not number:
            signal.alarm(30)
            asyncio.events._set_running_loop(None)
            asyncio.run(child(app, path))
            os._exit(0)
        os.waitpid(number, 0)
        await app.deliver("work", 2)
        print("parent", len(await app.list()))

asyncio.run(main(sys.argv[1]))
"""


def test_a_fork_of_the_process_is_refused_and_does_no_harm(path: Path) -> None:
    *refused, last = run(FORK, path)
    assert [each.split()[0] for each in refused] == ["write", "read", "hold", "open"]
    assert all("before this process was forked" in each for each in refused)
    assert last == "parent 2"
    assert [each.name for each in path.parent.glob("duly.db*")] == ["duly.db"]


ORPHAN = """
import asyncio, os, signal, sys
from duly import App

async def main(path):
    app = App(f"sqlite:///{path}", environment={})
    @app.handler("work")
    async def work(delivery): ...
    async with app:
        await app.store.own()
        await app.deliver("work", 0)
        number = os.fork()
        if not number:
            signal.alarm(60)
            while True:
                signal.pause()
        print(number, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1]))
"""


async def test_a_fork_that_outlives_its_parent_does_not_hold_the_lock(
    sqlite_url: str, path: Path
) -> None:
    # Its output goes to a file: the orphan would keep a pipe open.
    output_path = path.with_name("output_path")
    with open(output_path, "w") as output:  # noqa: ASYNC230 - nothing else runs here
        command = [sys.executable, "-c", ORPHAN, str(path)]
        subprocess.run(command, stdout=output, check=False)  # noqa: ASYNC221 - nor here
    orphan = int(output_path.read_text())
    try:
        async with App(sqlite_url, environment={}) as app:
            app.handler("work")(_nothing)
            await app.store.own()
            await app.deliver("work")
            assert len(await app.list()) == 2
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_duly_does_not_import_sqlite3() -> None:
    source = Path(guard.__file__).parents[2]
    texts = {path: path.read_text() for path in source.rglob("*.py")}
    assert len(texts) > 100
    assert [path for path, text in texts.items() if "import sqlite3" in text] == []


async def test_the_app_closes_all_descriptors(sqlite_url: str, path: Path) -> None:
    async with App(sqlite_url, environment={}) as app:
        await app.list()
        assert descriptors_of(identity_of(path))
    assert not descriptors_of(identity_of(path))
