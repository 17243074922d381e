"""Files that duly writes can be read only by their owner, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.surfaces.cli.server.doctor_checks import CheckResult, rights_check
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("X4")

OWNER_ONLY = 0o600


@pytest.fixture
def permissive() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def opened(home: Home) -> list[str]:
    """The files that users other than their owner may read or write."""
    return sorted(
        path.name for path in home.folder.iterdir() if path.is_file() and mode(path) & 0o077
    )


async def test_the_store_its_lock_and_exports_are_only_for_the_owner(
    sqlite_home: Home, permissive: None
) -> None:
    home = sqlite_home
    async with home.app() as app:
        await app.store.own()
        beside = {path.name for path in home.folder.iterdir()}
        assert {"duly.db", "duly.db-wal", "duly.db-shm", "duly.db.lock"} <= beside
        assert opened(home) == []
    home.ok("export", "moved.ndjson", "--with-secrets")
    assert mode(home.folder / "moved.ndjson") == OWNER_ONLY


async def test_a_file_that_others_may_read_is_unchanged_and_the_doctor_warns(
    sqlite_home: Home,
) -> None:
    await sqlite_home.deliver("log")
    file = sqlite_home.folder / "duly.db"
    file.chmod(0o640)
    (found,) = (
        each for each in sqlite_home.json("doctor")["checks"] if each["name"] == "file rights"
    )
    assert found["verdict"] == "warning"
    assert f"chmod 600 {file}" in found["remedy"]
    assert mode(file) == 0o640


def test_only_permissions_of_others_are_a_warning() -> None:
    assert rights_check({"a": 0o100600}).verdict is CheckResult.OK
    for others in (0o100640, 0o100604, 0o100620):
        assert rights_check({"a": 0o100600, "b": others}).verdict is CheckResult.WARNING
