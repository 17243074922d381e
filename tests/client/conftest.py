"""A real server for the client."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.processes import Home


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, sqlite_schema: Path) -> Iterator[str]:
    """The URL of a server that has the handler `log`."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "duly.db").write_bytes(sqlite_schema.read_bytes())
    with Home(folder, f"sqlite:///{folder}/duly.db").serving() as server:
        yield server.url


@pytest.fixture
def own_home(tmp_path: Path, sqlite_url: str) -> Home:
    """A database without a server yet."""
    return Home(tmp_path, sqlite_url)
