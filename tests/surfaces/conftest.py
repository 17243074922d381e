"""Fixtures: homes with a new database on each store, or on SQLite if the store does not matter."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import ForeignServer, Server
from tests.surfaces.processes import Home
from tests.surfaces.sides import Sides, both_sides, fresh_home


@pytest.fixture
def home(tmp_path: Path, database_url: str) -> Home:
    return Home(tmp_path, database_url)


@pytest.fixture
def empty_home(tmp_path: Path, empty_database_url: str) -> Home:
    return Home(tmp_path, empty_database_url)


@pytest.fixture
def sqlite_home(tmp_path: Path, empty_sqlite_url: str) -> Home:
    return Home(tmp_path, empty_sqlite_url)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def sides(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    sqlite_schema: Path,
    postgres: ForeignServer | Server,
    postgres_schema: str,
) -> Iterator[Sides]:
    """A store with a server in front of it, for all tests of a module."""
    stores = (sqlite_schema, postgres, postgres_schema)
    folder = tmp_path_factory.mktemp("sides")
    with fresh_home(request.param, folder, *stores) as home, both_sides(home) as found:
        yield found
