"""Databases for the tests, one fresh per test, on both stores; with duly's schema, or empty."""

import asyncio
import shutil
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.postgres import ForeignServer, Server, quick_server, shared_server
from tests.support.schemas import bring_up, postgres_template

SLOW = ("mutants", "surfaces", "crash")


def pytest_configure() -> None:
    """No deadline for examples: a busy machine is no failure.

    Tests that run in the background ignore SIGINT, and so would all processes that they start.
    """
    settings.register_profile("duly", deadline=None)
    settings.load_profile("duly")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slow ones: whatever comes last is waited for by all processes."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, folder in enumerate(SLOW) if folder in item.path.parts), len(SLOW))


@pytest.fixture(scope="session")
def postgres() -> Iterator[ForeignServer | Server]:
    """The server all tests share; whoever wants to stop one asks for `own_postgres`."""
    server = shared_server()
    if isinstance(server, Server):
        with server:
            yield server
    else:
        with closing(server):
            yield server


@pytest.fixture
def own_postgres() -> Iterator[Server]:
    """A server of this test alone, to stop, kill and restart."""
    with quick_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_schema(postgres: ForeignServer | Server) -> str:
    """A database to copy, with duly's schema."""
    return asyncio.run(postgres_template(postgres))


@pytest.fixture(scope="session")
def sqlite_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to copy, with duly's schema."""
    path = tmp_path_factory.mktemp("schema") / "duly.db"
    asyncio.run(bring_up(f"sqlite:///{path}"))
    return path


@pytest.fixture
async def postgres_url(
    postgres: ForeignServer | Server, postgres_schema: str
) -> AsyncIterator[str]:
    name = f"duly_{uuid.uuid4().hex}"
    yield await postgres.create_database(name, postgres_schema)
    await postgres.drop_database(name)


@pytest.fixture
async def empty_postgres_url(postgres: ForeignServer | Server) -> AsyncIterator[str]:
    name = f"duly_{uuid.uuid4().hex}"
    yield await postgres.create_database(name)
    await postgres.drop_database(name)


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/duly.db"


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_schema: Path) -> str:
    shutil.copy(sqlite_schema, tmp_path / "duly.db")
    return f"sqlite:///{tmp_path}/duly.db"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database on each store in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database_url(request: pytest.FixtureRequest) -> str:
    """One without a schema, or not even there yet, for those that test how it comes to be."""
    url: str = request.getfixturevalue(f"empty_{request.param}_url")
    return url
