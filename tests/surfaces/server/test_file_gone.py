"""A server whose SQLite file is deleted, moved or replaced accepts nothing, and reports why."""

import http.client
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.surfaces.processes import Home, Running

pytestmark = [pytest.mark.requirement("D1", "D14"), pytest.mark.long]


def deliver(server: Running) -> tuple[int, dict[str, Any]]:
    """Make a delivery; returns status and body."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    try:
        body = json.dumps({"target": "log", "payload": 1})
        connection.request("POST", "/v1/deliveries", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def stop(server: Running) -> None:
    server.signal(signal.SIGTERM)
    assert server.end() == 0


def path_of(home: Home) -> Path:
    return Path(home.database.removeprefix("sqlite:///"))


def copied(path: Path) -> Path:
    """Copy the file alone, without its write-ahead log."""
    return Path(shutil.copyfile(path, path.with_suffix(".copy")))


async def stored(home: Home) -> int:
    async with home.app() as app:
        return len(await app.list(limit=1000))


async def test_while_the_file_is_missing_the_answer_is_503(sqlite_home: Home) -> None:
    path = path_of(sqlite_home)
    moved = path.with_name("away.db")
    with sqlite_home.serving() as server:
        acknowledged = sum(deliver(server)[0] == 201 for _ in range(3))
        assert acknowledged == 3
        path.rename(moved)
        for _ in range(3):
            status, problem = deliver(server)
            assert status == 503
            assert "is gone: it was deleted or moved" in problem["detail"]
        assert "is gone" in server.wait_for("StoreUnreachable")["problem"]
        server.health_when(lambda health: not health["store"]["reachable"])
        assert not path.exists()
        assert await stored(Home(sqlite_home.folder, f"sqlite:///{copied(moved)}")) == 3
        moved.rename(path)
        server.wait_for("StoreReachable")
        assert deliver(server)[0] == 201
        stop(server)
    assert await stored(sqlite_home) == 4


async def test_a_backup_in_its_place_is_used_after_a_restart(sqlite_home: Home) -> None:
    path = path_of(sqlite_home)
    backup = path.with_name("backup.db")
    with sqlite_home.serving() as server:
        assert deliver(server)[0] == 201
        stop(server)
    shutil.copyfile(path, backup)
    with sqlite_home.serving() as server:
        assert deliver(server)[0] == 201
        os.link(path, path.with_name("first.db"))
        backup.replace(path)
        status, problem = deliver(server)
        assert status == 503
        assert "restart duly to use the file that is there now" in problem["detail"]
        stop(server)
    with sqlite_home.serving() as server:
        assert deliver(server)[0] == 201
        stop(server)
    assert await stored(sqlite_home) == 2, (
        "the write-ahead log of the first file is not applied to this one"
    )
    first = Home(sqlite_home.folder, f"sqlite:///{path.with_name('first.db')}")
    assert await stored(first) == 2, "the write-ahead log of the first file is not lost"
