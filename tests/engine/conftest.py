"""Apps with a clock that the test moves, and engines whose loops the test ticks by hand."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest

from duly.failpoints import arm
from duly.testing import VirtualClock
from tests.engine.house import House

START = datetime(2026, 6, 1, 9, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
async def house(sqlite_url: str, clock: VirtualClock) -> AsyncIterator[House]:
    """On SQLite, where the store is no matter."""
    found = House(sqlite_url, clock)
    yield found
    await found.close()


@pytest.fixture
async def any_house(database_url: str, clock: VirtualClock) -> AsyncIterator[House]:
    """On each store in turn."""
    found = House(database_url, clock)
    yield found
    await found.close()


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")
