"""Apps with a clock that the test moves, and engines whose loops the test ticks by hand."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest

from duly.failpoints import arm
from duly.testing import VirtualClock
from tests.engine.cluster import Cluster

START = datetime(2026, 6, 1, 9, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
async def cluster(sqlite_url: str, clock: VirtualClock) -> AsyncIterator[Cluster]:
    """On SQLite, for tests that do not depend on the store."""
    found = Cluster(sqlite_url, clock)
    yield found
    await found.close()


@pytest.fixture
async def any_cluster(database_url: str, clock: VirtualClock) -> AsyncIterator[Cluster]:
    """On each store in turn."""
    found = Cluster(database_url, clock)
    yield found
    await found.close()


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")
