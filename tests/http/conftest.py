"""Fixtures: the site that `duly serve` opens, called in this process, on each store."""

from collections.abc import AsyncIterator

import pytest
from httpx import ASGITransport, AsyncClient

from duly import App
from duly.surfaces.http.application import site
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.system import SystemChance
from duly.testing import VirtualClock
from tests.services.conftest import START

Client = AsyncClient


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def chance() -> SystemChance:
    return SystemChance()


@pytest.fixture
async def app(database_url: str, clock: VirtualClock, chance: SystemChance) -> AsyncIterator[App]:
    """An open app with a handler `work`, on each store in turn."""
    async with opened(database_url, clock, chance) as app:
        yield app


@pytest.fixture
async def small_app(
    sqlite_url: str, clock: VirtualClock, chance: SystemChance
) -> AsyncIterator[App]:
    """The same on SQLite, for tests in which the store does not matter."""
    async with opened(sqlite_url, clock, chance) as app:
        yield app


@pytest.fixture
def process_health(app: App) -> ProcessHealth:
    return ProcessHealth(app, app.engine(stepped=True))


@pytest.fixture
async def client(app: App, process_health: ProcessHealth) -> AsyncIterator[Client]:
    async with calling(app, process_health) as client:
        yield client


@pytest.fixture
async def small_client(small_app: App) -> AsyncIterator[Client]:
    async with calling(small_app, ProcessHealth(small_app, small_app.engine())) as client:
        yield client


def opened(url: str, clock: VirtualClock, chance: SystemChance) -> App:
    """An app with a target whose handler is in another process."""
    app = App(url, clock=clock, chance=chance, environment={})
    app.expect("work")
    return app


def calling(app: App, process_health: ProcessHealth) -> AsyncClient:
    """A client in the event loop of the test, which is also that of the store."""
    transport = ASGITransport(site(app, process_health))
    return AsyncClient(
        transport=transport,
        base_url="http://127.0.0.1",
        headers={"content-type": "application/json"},
    )
