"""Databases for the tests: a new one for each test, on both stores, with duly's schema or empty."""

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
    """Disable the deadline for examples: a busy machine is not a failure.

    Tests in the background ignore SIGINT, and so would all processes that they start.
    """
    settings.register_profile("duly", deadline=None)
    settings.load_profile("duly")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first, so that no process waits for one at the end."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, folder in enumerate(SLOW) if folder in item.path.parts), len(SLOW))


@pytest.fixture(scope="session")
def postgres() -> Iterator[ForeignServer | Server]:
    """The server that all tests share; tests that stop a server use `own_postgres`."""
    server = shared_server()
    if isinstance(server, Server):
        with server:
            yield server
    else:
        with closing(server):
            yield server


@pytest.fixture
def own_postgres() -> Iterator[Server]:
    """A server for one test, which may stop, kill and restart it."""
    with quick_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_schema(postgres: ForeignServer | Server) -> str:
    """A template database with duly's schema."""
    return asyncio.run(postgres_template(postgres))


@pytest.fixture(scope="session")
def sqlite_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A template file with duly's schema."""
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
    """A new database with the schema, on each store."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database_url(request: pytest.FixtureRequest) -> str:
    """A database without a schema, or a file that does not exist yet."""
    url: str = request.getfixturevalue(f"empty_{request.param}_url")
    return url
