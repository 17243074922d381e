"""PostgreSQL servers and roles as providers offer them: a plain role, a replica, read-only, TLS."""

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support.postgres import ForeignServer, Server
from tests.support.schemas import bring_up
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("S1")


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for each in statements:
            await connection.execute(each)
    finally:
        await connection.close()


@pytest.fixture
async def role(
    postgres: ForeignServer | Server, empty_postgres_url: str
) -> AsyncIterator[tuple[str, str]]:
    """A role that may create nothing in the database, and the database URL with that role."""
    name = f"plain_{uuid.uuid4().hex}"
    await execute(empty_postgres_url, f"create role {name} login password 'plain'")
    head, _, tail = empty_postgres_url.rpartition("@")
    yield name, f"{head.partition('://')[0]}://{name}:plain@{tail}"
    await execute(empty_postgres_url, f"drop owned by {name}", f"drop role {name}")


async def test_a_role_that_owns_only_its_schema_works(
    tmp_path: Path, empty_postgres_url: str, role: tuple[str, str]
) -> None:
    name, url = role
    home = Home(tmp_path, url)
    refused = home.duly("migrate", "up")
    assert refused.returncode == 4
    assert "permission denied" in refused.stderr
    assert "create schema duly authorization" in refused.stderr
    await execute(empty_postgres_url, f"create schema duly authorization {name}")
    with home.serving() as server:
        assert home.json("doctor")["ok"] is True
        home.ok("deliver", "log", '{"hello": "role"}')
        server.line_with("role")


def verdicts(document: Any) -> dict[str, tuple[str, str]]:
    return {each["name"]: (each["verdict"], each.get("remedy", "")) for each in document["checks"]}


async def test_a_replica_is_reported(tmp_path: Path, own_postgres: Server) -> None:
    home = Home(tmp_path, await own_postgres.create_database("books"))
    await bring_up(home.database)
    own_postgres.stop()
    (own_postgres.data_directory / "standby.signal").touch()
    own_postgres.start()
    done = home.duly("doctor", "--json")
    assert done.returncode == 1
    verdict, remedy = verdicts(json.loads(done.stdout))["writable"]
    assert (verdict, "replica" in remedy) == ("failed", True)
    for command in (("serve", "--port", "0"), ("migrate", "up")):
        refused = home.process(*command)
        assert refused.returncode == 4
        assert "this server is a replica; name the primary" in refused.stderr
        assert "target_session_attrs=read-write" in refused.stderr
    # Commands that only read work there.
    assert home.json("deliveries", "list")["items"] == []
    changed = home.duly("streams", "pause", "mine")
    assert changed.returncode == 4
    assert "replica or read-only" in changed.stderr


async def test_a_read_only_database_is_reported(tmp_path: Path, postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2].partition("?")[0]
    await execute(postgres_url, f'alter database "{name}" set default_transaction_read_only = on')
    home = Home(tmp_path, postgres_url)
    done = home.duly("doctor")
    assert done.returncode == 1
    assert "default_transaction_read_only is on" in done.stdout
    refused = home.process("serve", "--port", "0")
    assert refused.returncode == 4
    assert "alter role ROLE set default_transaction_read_only = off" in refused.stderr


def test_ignored_parameters_are_reported(tmp_path: Path, postgres_url: str) -> None:
    mark = "&" if "?" in postgres_url else "?"
    home = Home(tmp_path, f"{postgres_url}{mark}keepalives=1&schema=public&application_name=mine")
    found = home.json("doctor")
    assert found["ok"] is True
    ignored = [each["found"] for each in found["checks"] if each["name"] == "address"]
    assert ignored == ["keepalives is ignored", "schema is ignored"]
    with home.running("serve", "--port", "0") as server:
        assert "schema `duly`" in server.line_with(
            "parameter schema of the database URL is ignored"
        )
