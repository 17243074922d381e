"""Fixtures of the crash tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.fleet import Books, Fleet


@pytest.fixture
def fleet(database_url: str) -> Iterator[Fleet]:
    """Worker processes on the store under test."""
    fleet = Fleet(database_url)
    yield fleet
    fleet.close()


@pytest.fixture
async def books(database_url: str) -> Books:
    """The store under test, with its schema and a table for effects."""
    books = Books(database_url)
    await books.prepare()
    return books
