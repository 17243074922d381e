"""The port from within: the same site that `duly serve` opens, on each store in turn."""

from collections.abc import AsyncIterator

import pytest
from httpx import ASGITransport, AsyncClient

from duly import App
from duly.surfaces.http.health import Pulse
from duly.surfaces.http.site import site
from duly.testing import VirtualClock
from tests.face.conftest import START

Client = AsyncClient


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
async def app(database_url: str, clock: VirtualClock) -> AsyncIterator[App]:
    """An open app with a handler `work`, on each store in turn."""
    app = App(database_url, clock=clock, environment={})
    app.expect("work")
    async with app:
        yield app


@pytest.fixture
def pulse(app: App) -> Pulse:
    return Pulse(app, app.engine())


@pytest.fixture
async def client(app: App, pulse: Pulse) -> AsyncIterator[Client]:
    # In the test's own loop, which is the store's too.
    transport = ASGITransport(site(app, pulse))
    async with AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client
