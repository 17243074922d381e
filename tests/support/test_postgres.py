"""The launcher, with the PostgreSQL of this machine and with the one in the wheel."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.support.postgres import Server
from tests.support.postgres_binaries import find_binaries, major_version, wheel_binaries


@pytest.fixture(params=["found", "wheel"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    binaries = (
        find_binaries() if request.param == "found" else max(wheel_binaries(), key=major_version)
    )
    with Server(binaries) as server:
        yield server


async def test_committed_data_survives_every_kind_of_stop(server: Server) -> None:
    url = await server.create_database("survivor")
    await execute(url, "create table ends (how text)")
    server.restart("fast")
    await execute(url, "insert into ends values ('fast')")
    server.restart("immediate")
    await execute(url, "insert into ends values ('immediate')")
    server.kill()
    server.start()
    assert await execute(url, "select how from ends order by how") == [("fast",), ("immediate",)]


async def test_dropping_a_database_closes_its_connections(server: Server) -> None:
    connection_to_it = await asyncpg.connect(await server.create_database("inn"))
    await server.drop_database("inn")
    with pytest.raises((asyncpg.InterfaceError, asyncpg.PostgresConnectionError)):
        await connection_to_it.execute("select 1")


def test_a_killed_process_leaves_no_server_behind() -> None:
    script = (
        "from tests.support.postgres import Server; server = Server(); server.start(); "
        "print(server.directory, server.data_directory, flush=True); input()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        directory, data = map(Path, owner.stdout.readline().decode().split())
        assert (data / "postmaster.pid").exists()
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while directory.exists() or data.exists():
        assert time.monotonic() < deadline, f"{directory} or {data} is still there"
        time.sleep(0.05)


async def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()
