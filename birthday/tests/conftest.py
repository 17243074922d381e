"""The birthday service from outside: its HTTP API, on each store, and a clock to move."""

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime

import pytest

from birthday.tests.people import Service
from duly.failpoints import arm
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.testing import VirtualClock
from duly_birthday.service import BirthdayApp
from tests.http.conftest import calling

START = datetime(2026, 8, 1, 7, 30, tzinfo=UTC)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
async def service(database_url: str, clock: VirtualClock) -> AsyncIterator[Service]:
    """A served app on each store."""
    async with serving(database_url, clock) as found:
        yield found


@pytest.fixture
async def small_service(sqlite_url: str, clock: VirtualClock) -> AsyncIterator[Service]:
    """The same on SQLite, for tests that do not depend on the store."""
    async with serving(sqlite_url, clock) as found:
        yield found


class serving:  # noqa: N801 - it is used as a function
    """An open app and a client of its API."""

    def __init__(
        self,
        url: str,
        clock: VirtualClock,
        environment: Mapping[str, str] | None = None,
        **options: object,
    ) -> None:
        environment = environment or {}
        self._app = BirthdayApp(url, clock=clock, environment=environment, **options)

    async def __aenter__(self) -> Service:
        await self._app.open()
        self._client = calling(self._app, ProcessHealth(self._app, self._app.engine()))
        await self._client.__aenter__()
        return Service(self._app, self._client)

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()
        await self._app.close()


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")
