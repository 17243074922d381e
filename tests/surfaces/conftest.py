"""Homes: with a fresh database on each store in turn, or, where that is no matter, yet without."""

from pathlib import Path

import pytest

from tests.surfaces.processes import Home


@pytest.fixture
def home(tmp_path: Path, database_url: str) -> Home:
    return Home(tmp_path, database_url)


@pytest.fixture
def empty_home(tmp_path: Path, empty_database_url: str) -> Home:
    return Home(tmp_path, empty_database_url)


@pytest.fixture
def sqlite_home(tmp_path: Path, empty_sqlite_url: str) -> Home:
    return Home(tmp_path, empty_sqlite_url)
