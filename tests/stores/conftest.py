"""An empty store of each kind, with a clock that the test moves."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from duly.failpoints import arm
from duly.testing import VirtualClock
from tests.stores.store_probe import START, StoreProbe, open_probe
from tests.support.postgres import ForeignServer, Server

EMPTY = (
    "truncate duly.deliveries, duly.agenda, duly.attempts, duly.steps, duly.running, "
    "duly.workers, duly.targets, "
    "duly.claims, duly.schedules, duly.former_schedules, duly.progress, duly.planned, duly.audit, "
    "duly.calendars, duly.endpoints, duly.gates, duly.in_flight, duly.limits, duly.limit_keys, "
    "duly.streams, duly.keys, duly.recovery, duly.recovery_policies, duly.generations, "
    "duly.batches, duly.unique_keys, duly.unsettled_keys"
)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture(scope="package")
def kept_postgres_url(postgres: ForeignServer | Server) -> Iterator[str]:
    """One database for all tests here, emptied after each: creating one takes longer."""
    name = f"duly_stores_{uuid.uuid4().hex}"
    yield asyncio.run(postgres.create_database(name))
    asyncio.run(postgres.drop_database(name))


@pytest.fixture
async def emptied_postgres_url(kept_postgres_url: str) -> AsyncIterator[str]:
    yield kept_postgres_url
    connection = await asyncpg.connect(kept_postgres_url, timeout=30)
    try:
        await connection.execute(f"{EMPTY} restart identity")
    finally:
        await connection.close()


@pytest.fixture(params=["sqlite", "emptied_postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
async def probe(store_url: str, clock: VirtualClock) -> AsyncIterator[StoreProbe]:
    found = await open_probe(store_url, clock)
    yield found
    await found.store.close()


@pytest.fixture
async def other_process(
    store_url: str, clock: VirtualClock, probe: StoreProbe
) -> AsyncIterator[StoreProbe]:
    """The same database, opened by another process."""
    found = await open_probe(store_url, clock)
    yield found
    await found.store.close()


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")
