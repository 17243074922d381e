"""A second SQLite library in duly's process, or a fork of it, damages nothing: it is refused.

`sqlite3` is the second library. It is refused when it connects to the file; so where a test wants
one that gets through, it attaches the file to a database in memory.
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
    """Take it and do nothing."""


def attached(path: Path) -> sqlite3.Connection:
    """A connection of the second library that got through, and has read."""
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
def test_a_library_that_gets_through_takes_nothing_with_it_when_it_closes(path: Path) -> None:
    acknowledged, seen = run(ALTERNATE, path)
    assert seen == acknowledged
    assert int(acknowledged.split()[0]) > 1


def test_without_protection_that_library_takes_everything(tmp_path: Path) -> None:
    """Shows that the test above has something to protect from."""
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
async def test_sqlite3_is_refused_however_the_file_is_spelled(
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


async def test_sqlite3_may_have_other_files_and_this_one_when_it_is_closed(
    sqlite_url: str, path: Path
) -> None:
    async with App(sqlite_url, environment={}), App(sqlite_url, environment={}):
        for name in (":memory:", "", path.with_name("own.db")):
            sqlite3.connect(name).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("select count(*) from duly_deliveries").fetchall()
    async with App(sqlite_url, environment={}) as app:
        assert await app.list() == []


async def test_one_that_closes_leaves_the_other_protected(sqlite_url: str, app: App) -> None:
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


async def test_while_another_library_has_it_open_nothing_is_accepted(app: App, path: Path) -> None:
    with closing(attached(path)):
        file_of(app).look()
        with pytest.raises(StoreUnavailable, match="two SQLite libraries"):
            await app.deliver("work")
        with pytest.raises(StoreUnavailable, match="two SQLite libraries"):
            await app.list()
    file_of(app).look()
    assert await app.deliver("work")


async def test_the_look_is_repeated_by_itself(app: App, path: Path) -> None:
    file, looked = file_of(app), threading.Event()
    look = file.look

    def noted() -> None:
        look()
        if file._problem:
            looked.set()

    file.look = noted
    with closing(attached(path)):
        assert await asyncio.get_running_loop().run_in_executor(None, looked.wait, 30)
        with pytest.raises(StoreUnavailable, match="two SQLite libraries"):
            await app.deliver("work")


async def test_connections_of_our_own_are_never_taken_for_others(app: App, sqlite_url: str) -> None:
    async with App(sqlite_url, environment={}) as other:
        await asyncio.gather(*(each.list() for each in (app, other) for _ in range(8)))
        async with app.store.database.snapshot() as snapshot:
            await snapshot.fetch_named("agenda.survey", served=None)
            file_of(app).look()
            await app.deliver("work")
        file_of(other).look()
        assert len(await other.list()) == 1


async def test_where_descriptors_cannot_be_listed_it_works_unprotected(
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
async def test_a_copy_of_the_file_made_by_this_process_costs_no_lock(app: App, path: Path) -> None:
    """Closing any descriptor drops the process's locks, and the next to close removed the log."""
    await app.deliver("work")
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).read_bytes()
    for _ in range(2):
        looked = "import sys, apsw; apsw.Connection(sys.argv[1]).pragma('user_version')"
        run(looked, path)
        await app.deliver("work")
    assert len(await app.list()) == 3


FORK = """
import asyncio, os, signal, sys
from duly import App
from duly.errors import StoreUnavailable

async def tried(name, call):
    try:
        await call
        print(name, "went through", flush=True)
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


async def test_a_fork_that_outlives_its_parent_keeps_nobody_out(
    sqlite_url: str, path: Path
) -> None:
    # Its output goes to a file: of a pipe the orphan would hold the other end.
    said = path.with_name("said")
    with open(said, "w") as output:  # noqa: ASYNC230 - nothing else runs here
        asked = [sys.executable, "-c", ORPHAN, str(path)]
        subprocess.run(asked, stdout=output, check=False)  # noqa: ASYNC221 - nor here
    orphan = int(said.read_text())
    try:
        async with App(sqlite_url, environment={}) as app:
            app.handler("work")(_nothing)
            await app.store.own()
            await app.deliver("work")
            assert len(await app.list()) == 2
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_duly_itself_has_one_library() -> None:
    source = Path(guard.__file__).parents[2]
    texts = {path: path.read_text() for path in source.rglob("*.py")}
    assert len(texts) > 100
    assert [path for path, text in texts.items() if "import sqlite3" in text] == []


async def test_all_descriptors_are_gone_with_the_app(sqlite_url: str, path: Path) -> None:
    async with App(sqlite_url, environment={}) as app:
        await app.list()
        assert descriptors_of(identity_of(path))
    assert not descriptors_of(identity_of(path))
