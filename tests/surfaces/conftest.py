"""A home with a fresh database on each store in turn, or on SQLite where the store is no matter."""

from pathlib import Path

import pytest

from tests.surfaces.processes import Home


@pytest.fixture
def home(tmp_path: Path, database_url: str) -> Home:
    return Home(tmp_path, database_url)


@pytest.fixture
def sqlite_home(tmp_path: Path, sqlite_url: str) -> Home:
    return Home(tmp_path, sqlite_url)
