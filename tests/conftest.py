"""Databases for the tests, one fresh and empty per test, on both stores."""

import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.postgres import ForeignServer, Server, shared_server

SLOW = ("mutants", "surfaces", "crash")


def pytest_configure() -> None:
    """Whoever runs the tests in the background ignores SIGINT, and so would all they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the slow ones: whatever comes last is waited for by all processes."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folder = item.path.parent.name
    return SLOW.index(folder) if folder in SLOW else len(SLOW)


@pytest.fixture(scope="session")
def postgres() -> Iterator[ForeignServer | Server]:
    """The server all tests share; whoever wants to stop one asks for `own_postgres`."""
    server = shared_server()
    if isinstance(server, ForeignServer):
        yield server
    else:
        with server:
            yield server


@pytest.fixture
def own_postgres() -> Iterator[Server]:
    """A server of this test alone, to stop, kill and restart."""
    with Server() as server:
        yield server


@pytest.fixture
async def postgres_url(postgres: ForeignServer | Server) -> AsyncIterator[str]:
    name = f"duly_{uuid.uuid4().hex}"
    yield await postgres.create_database(name)
    await postgres.drop_database(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/duly.db"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database on each store in turn."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
