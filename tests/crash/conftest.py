"""Fixtures of the crash tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.fleet import Fleet, StoreUnderTest


@pytest.fixture
def fleet(database_url: str) -> Iterator[Fleet]:
    """Worker processes on the store under test."""
    fleet = Fleet(database_url)
    yield fleet
    fleet.close()


@pytest.fixture
async def store(database_url: str) -> StoreUnderTest:
    """The store under test, with its schema and a table for effects."""
    store = StoreUnderTest(database_url)
    await store.prepare()
    return store
