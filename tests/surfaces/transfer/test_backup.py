"""`duly backup`: the copy has every accepted delivery, whatever others write meanwhile."""

from __future__ import annotations

import asyncio
import json
import shutil
import stat
from pathlib import Path

import apsw
import pytest

from duly import App
from duly.errors import Conflict
from duly.stores.sqlite.backup import back_up
from duly.stores.sqlite.database import Sqlite
from duly.stores.store import SqlStore
from tests.surfaces.processes import Home
from tests.surfaces.sides import command

pytestmark = pytest.mark.requirement("D1")
MANY = 25


async def ids_in(path: Path) -> set[str]:
    app = App(f"sqlite:///{path}", environment={})
    async with app:
        return {each.id for each in await app.list(limit=1000)}


async def test_the_copy_has_deliveries_that_are_only_in_the_write_ahead_log(
    sqlite_home: Home,
) -> None:
    copy, plain = sqlite_home.folder / "copy.db", sqlite_home.folder / "plain.db"
    with sqlite_home.serving():
        async with sqlite_home.app() as app:
            accepted = {(await app.deliver("log", n, after=3600)).id for n in range(MANY)}
            shutil.copyfile(sqlite_home.folder / "duly.db", plain)
            # In its own process: SQLite's locks have to keep it and the writers apart.
            done = sqlite_home.process("backup", str(copy), "--json")
        again = sqlite_home.duly("backup", str(copy))
        sqlite_home.ok("status")
    assert (again.returncode, "exists, and is not overwritten" in again.stderr) == (5, True)
    assert json.loads(done.stdout)["bytes"] == copy.stat().st_size
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    beside = {each.name for each in sqlite_home.folder.iterdir()} - {"plain.db"}
    assert {each for each in beside if not each.startswith("duly.db")} == {"copy.db"}
    assert await ids_in(copy) >= accepted
    # If the file alone had all of them, this would prove nothing.
    assert not await ids_in(plain) >= accepted


async def test_writes_during_the_copy_are_not_in_it_and_do_not_restart_it(
    sqlite_url: str, tmp_path: Path
) -> None:
    app, steps = App(sqlite_url, environment={}), list[tuple[int, int]]()
    async with app:
        app.expect("log")
        before = {(await app.deliver("log", n)).id for n in range(5)}
        store = app.store
        assert isinstance(store, SqlStore)
        assert isinstance(store.database, Sqlite)
        writer = apsw.Connection(str(store.database.path))
        writer.execute("create table others (page)")

        def on_step(copied: int, pages: int) -> None:
            steps.append((copied, pages))
            assert len(steps) < 1000, "each write restarts the copy"
            writer.execute("insert into others values (randomblob(10000))")

        await back_up(store.database, tmp_path / "copy.db", on_step, pages=10)
        writer.close()
    assert len(steps) > 5
    assert [copied for copied, _ in steps] == sorted(copied for copied, _ in steps)
    assert {pages for _, pages in steps} == {steps[-1][0]}
    assert await ids_in(tmp_path / "copy.db") == before
    copy = apsw.Connection(str(tmp_path / "copy.db"))
    assert copy.execute("select count(*) from others").get == 0
    copy.close()


async def test_a_cancelled_copy_leaves_nothing_and_overwrites_no_file(
    sqlite_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    async with App(sqlite_url, environment={}) as app:
        store = app.store
        assert isinstance(store, SqlStore)
        assert isinstance(store.database, Sqlite)
        copying = asyncio.ensure_future(
            back_up(store.database, folder / "a", lambda *_: copying.cancel() and None, pages=1)
        )
        with pytest.raises(asyncio.CancelledError):
            await copying
        assert [*folder.iterdir()] == []

        def taken(*_: int) -> None:
            (folder / "b").write_text("another's")

        with pytest.raises(Conflict, match="exists"):
            await back_up(store.database, folder / "b", taken)
    assert [(each.name, each.read_text()) for each in folder.iterdir()] == [("b", "another's")]


def test_a_store_that_cannot_be_copied_is_reported_with_a_remedy(
    postgres_url: str, tmp_path: Path
) -> None:
    address = postgres_url.replace("://", "://me:hush@", 1)
    done = command("backup", "x.dump", "--database", address, environ={})
    assert done.code == 2
    assert "pg_dump --format=custom --file=x.dump" in done.err
    assert "hush" not in done.err
    none = f"sqlite:///{tmp_path}/none.db"
    missing = command("backup", "x.db", "--database", none, environ={})
    assert (missing.code, "there is no database" in missing.err) == (4, True)
    shown = command("backup", "x.db", environ={"DULY_SERVER": "http://127.0.0.1:9"})
    assert (shown.code, "needs the store" in shown.err) == (2, True)
    (tmp_path / "is.db").touch()
    where = f"sqlite:///{tmp_path}/is.db"
    astray = command("backup", f"{tmp_path}/no/x.db", "--database", where, environ={})
    assert (astray.code, "does not exist; make it first" in astray.err) == (2, True)
