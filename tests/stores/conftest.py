"""Empty books on each store in turn, with a clock that the test moves."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from duly.failpoints import arm
from duly.testing import VirtualClock
from tests.stores.books import START, Books, opened
from tests.support.postgres import ForeignServer, Server

EMPTY = (
    "truncate duly.deliveries, duly.agenda, duly.attempts, duly.steps, duly.workers, duly.targets, "
    "duly.claims, duly.schedules, duly.former_schedules, duly.progress, duly.planned, duly.audit, "
    "duly.endpoints, duly.gates, duly.in_flight, duly.streams, duly.keys"
)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture(scope="package")
def kept_postgres_url(postgres: ForeignServer | Server) -> Iterator[str]:
    """One database for all tests here, each of which leaves it empty: making one takes longer."""
    name = f"duly_books_{uuid.uuid4().hex}"
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
def books_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
async def books(books_url: str, clock: VirtualClock) -> AsyncIterator[Books]:
    found = await opened(books_url, clock)
    yield found
    await found.store.close()


@pytest.fixture
async def elsewhere(books_url: str, clock: VirtualClock, books: Books) -> AsyncIterator[Books]:
    """The same database as seen by another process."""
    found = await opened(books_url, clock)
    yield found
    await found.store.close()


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")
