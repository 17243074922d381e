"""An SQLite file that is deleted, replaced, moved or full loses no acknowledged delivery."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import apsw
import pytest

from duly import App, Delivery
from duly.errors import StoreIsOwned, StoreUnavailable
from duly.stores.sqlite.database import Sqlite, clear_errors

pytestmark = pytest.mark.requirement("D1", "D14")

COUNT = """
import sys, apsw
print(apsw.Connection(sys.argv[1]).execute("select count(*) from duly_deliveries").fetchall()[0][0])
"""


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


def check(app: App) -> None:
    """Run the check that a thread runs once a second."""
    database = app.store.database
    assert isinstance(database, Sqlite)
    database._file.look()


def on_disk(path: Path) -> int:
    """How many deliveries another process finds."""
    command = [sys.executable, "-c", COUNT, str(path)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_suffix(".moved"))


def replace(path: Path) -> None:
    copy = shutil.copyfile(path, path.with_suffix(".copy"))
    copy.replace(path)


def companion(change: Callable[[Path], None], suffix: str) -> Callable[[Path], None]:
    return lambda path: change(path.with_name(path.name + suffix))


CHANGES = {
    "deleted": (delete, "is gone"),
    "moved": (move, "is gone"),
    "folder moved": (move_folder, "is gone"),
    "replaced": (replace, "replaced by another file"),
    "log deleted": (companion(delete, "-wal"), "-wal was deleted or replaced"),
    "log replaced": (companion(replace, "-wal"), "-wal was deleted or replaced"),
    "index deleted": (companion(delete, "-shm"), "-shm was deleted or replaced"),
    "index replaced": (companion(replace, "-shm"), "-shm was deleted or replaced"),
}


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> tuple[Callable[[Path], None], str]:
    return CHANGES[request.param]


async def test_nothing_is_accepted_after_the_file_changed(
    app: App, path: Path, change: tuple[Callable[[Path], None], str]
) -> None:
    await app.deliver("work")
    make, words = change
    make(path)
    with pytest.raises(StoreUnavailable, match=words):
        await app.deliver("work")
    with pytest.raises(StoreUnavailable, match=words):
        await app.deliver_many([("work", None)] * 3)
    with pytest.raises(StoreUnavailable, match=words):
        await app.list()
    with pytest.raises(StoreUnavailable, match=words):
        async with app.transaction():
            pytest.fail("it must not begin")
    with pytest.raises(StoreUnavailable, match=words):
        async with app.store.database.snapshot() as snapshot:
            await snapshot.fetch_named("agenda.survey", namespace="default")


async def test_a_snapshot_that_cannot_begin_leaves_no_connection_open(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    class Failing:
        def execute(self, _: str) -> None:
            raise apsw.BusyError("it cannot begin")

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr("duly.stores.sqlite.database.read_only", lambda _: Failing())
    with pytest.raises(StoreUnavailable):
        async with app.store.database.snapshot():
            pytest.fail("it must not begin")
    assert len(closed) == 1


async def test_a_commit_after_the_file_changed_is_not_acknowledged(
    app: App, path: Path, change: tuple[Callable[[Path], None], str]
) -> None:
    await app.deliver("work")
    make, words = change
    database = app.store.database
    assert isinstance(database, Sqlite)

    def write(connection: apsw.Connection) -> None:
        connection.execute("create table mine (x)")
        make(path)

    with pytest.raises(StoreUnavailable, match=words):
        await database.write(write)


async def test_a_transaction_that_ends_after_the_file_changed_is_not_acknowledged(
    app: App, path: Path, change: tuple[Callable[[Path], None], str]
) -> None:
    make, words = change
    transaction = await app.store.begin()
    await app.deliver("work", connection=transaction)
    make(path)
    with pytest.raises(StoreUnavailable, match=words):
        await transaction.commit()


async def test_work_continues_when_the_same_file_is_back(
    sqlite_url: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done, app = asyncio.Queue[object](), App(sqlite_url, environment={})

    @app.handler("work")
    async def work(delivery: Delivery[str]) -> None:
        done.put_nowait(delivery.payload)

    running = asyncio.create_task(app.run())
    async with app:
        await app.deliver("work", "before")
        assert await done.get() == "before"
        move(path)
        with pytest.raises(StoreUnavailable, match="until the same file is back"):
            await app.deliver("work", "lost")
        assert path.name not in os.listdir(path.parent), "no new file was created in its place"
        os.rename(path.with_suffix(".moved"), path)
        await app.deliver("work", "after")
        assert await done.get() == "after"
        app.stop()
        await running
    assert done.empty()
    assert on_disk(path) == 2


async def test_acknowledged_deliveries_survive_the_deletion_of_the_log(
    app: App, path: Path
) -> None:
    for _ in range(20):
        await app.deliver("work")
    path.with_name(path.name + "-wal").unlink()
    with pytest.raises(StoreUnavailable):
        await app.deliver("work")
    alone = path.with_name("alone.db")
    shutil.copyfile(path, alone)
    assert on_disk(alone) == 20, "the file has them even if this process is killed now"


async def test_a_relative_path_survives_a_change_of_directory(
    sqlite_url: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    app = App(f"sqlite:///{path.name}", environment={})
    app.handler("work")(_nothing)
    async with app:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        await app.deliver("work")
        assert len(await app.list()) == 1
        await app.store.own()
    assert os.listdir() == []
    assert on_disk(path) == 1


async def test_a_link_uses_the_file_and_its_lock(app: App, path: Path, sqlite_url: str) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    await app.store.own()
    async with App(f"sqlite:///{link}", environment={}) as other:
        other.handler("work")(_nothing)
        await other.deliver("work")
        with pytest.raises(StoreIsOwned):
            await other.store.own()
        link.unlink()
        with pytest.raises(StoreUnavailable, match="is gone"):
            await other.deliver("work")
    assert len(await app.list()) == 1


async def test_a_lock_that_was_removed_is_taken_again(app: App, path: Path) -> None:
    await app.store.own()
    lock = path.with_name(path.name + ".lock")
    lock.unlink()
    check(app)
    await app.deliver("work")
    assert lock.read_text() == str(os.getpid())
    async with App(f"sqlite:///{path}", environment={}) as other:
        with pytest.raises(StoreIsOwned, match="already runs"):
            await other.store.own()


async def test_a_server_that_lost_the_lock_to_another_stops_writing(app: App, path: Path) -> None:
    await app.store.own()
    path.with_name(path.name + ".lock").unlink()
    async with App(f"sqlite:///{path}", environment={}) as other:
        other.handler("work")(_nothing)
        await other.store.own()
        check(app)
        with pytest.raises(StoreUnavailable, match=r"\.lock was removed.*already runs"):
            await app.deliver("work")
        await other.deliver("work")
    check(app)
    assert await app.deliver("work"), "the other has stopped"


async def test_a_clean_close_leaves_one_file(sqlite_url: str, path: Path) -> None:
    async with App(sqlite_url, environment={}) as app, App(sqlite_url, environment={}) as other:
        app.handler("work")(_nothing)
        await app.deliver("work")
        assert len(await other.list()) == 1
    assert [each.name for each in path.parent.glob("duly.db*")] == ["duly.db"]


async def test_calls_during_a_close_are_refused(app: App) -> None:
    database, begun, go = app.store.database, threading.Event(), threading.Event()
    assert isinstance(database, Sqlite)

    def write(connection: apsw.Connection) -> str:
        begun.set()
        go.wait(30)
        return "written"

    slow = asyncio.create_task(database.write(write))
    assert await asyncio.get_running_loop().run_in_executor(None, begun.wait, 30)
    closing = asyncio.create_task(database.close())
    await asyncio.tasks.sleep(0)
    with pytest.raises(StoreUnavailable, match="is not open"):
        await app.deliver("work")
    with pytest.raises(StoreUnavailable, match="is not open"):
        await app.list()
    go.set()
    await closing
    assert await slow == "written"


async def test_a_file_that_could_not_be_opened_is_released(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "no.db"
    other.write_bytes(b"this is not a database" * 100)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="not a database"):
            await App(f"sqlite:///{other}", environment={}).open()
    shutil.copyfile(path, other)
    async with App(f"sqlite:///{other}", environment={}) as app:
        assert await app.list() == []


FULL = """
import asyncio, os, resource, sys
from duly import App
from duly.errors import StoreUnavailable

async def main(path):
    app = App(f"sqlite:///{path}", environment={})
    @app.handler("work")
    async def work(delivery): ...
    async with app:
        await app.deliver("work", 1)
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(path + "-wal").st_size, most))
        for call in (app.deliver("work", 2), app.deliver_many([("work", 3)] * 500)):
            try:
                await call
            except StoreUnavailable as error:
                print("refused", error)
        try:
            async with app.transaction() as transaction:
                await app.deliver("work", 4, connection=transaction)
        except StoreUnavailable as error:
            print("refused", error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        await app.deliver("work", 5)
        print(sorted(bytes(each.payload_json) for each in await app.list()))

asyncio.run(main(sys.argv[1]))
"""


def test_a_full_disk_means_that_the_store_is_unavailable(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *refused, last = done.stdout.splitlines()
    assert len(refused) == 3
    assert all("SQLite could not work on" in each for each in refused)
    assert last == "[b'1', b'5']"


DISK = "Full ReadOnly IO CantOpen Busy Protocol Corrupt NotADB NoLFS Permissions Locked"


@pytest.mark.parametrize("problem", [getattr(apsw, f"{each}Error") for each in DISK.split()])
def test_every_disk_error_means_that_the_store_is_unavailable(problem: type[apsw.Error]) -> None:
    with pytest.raises(StoreUnavailable, match=r"file\.db"), clear_errors(Path("file.db")):
        raise problem("a disk error")
