"""A clock that the test moves, and apps that close themselves."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from duly import App
from duly.failpoints import arm
from duly.testing import VirtualClock
from tests.services.work import Work

START = datetime(2026, 8, 1, 7, 30, tzinfo=UTC)
MakeApp = Callable[..., App]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
async def app(database_url: str, clock: VirtualClock) -> AsyncIterator[App]:
    """An open app on each store in turn."""
    async with App(database_url, clock=clock, environment={}) as found:
        yield found


@pytest.fixture
def other_url(request: pytest.FixtureRequest, database_url: str) -> str:
    """A fresh database of the other kind."""
    name = "postgres" if database_url.startswith("sqlite") else "sqlite"
    url: str = request.getfixturevalue(f"{name}_url")
    return url


@pytest.fixture
async def other(other_url: str, clock: VirtualClock) -> AsyncIterator[App]:
    """An open app on the other kind of store."""
    async with App(other_url, clock=clock, environment={}) as found:
        yield found


@pytest.fixture
async def small_app(sqlite_url: str, clock: VirtualClock) -> AsyncIterator[App]:
    """An open app on SQLite, for tests that do not depend on the store."""
    async with App(sqlite_url, clock=clock, environment={}) as found:
        yield found


@pytest.fixture
def work(app: App) -> Work:
    return Work(app)


@pytest.fixture
async def live(database_url: str) -> AsyncIterator[Work]:
    """The same with a real clock, for a real engine."""
    async with App(database_url, environment={}) as app:
        yield Work(app)


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm("")


def record_payloads(app: App, name: str = "work") -> list[Any]:
    """Register a handler that only records its payloads."""
    seen: list[Any] = []

    async def record(delivery: Any) -> None:
        seen.append(delivery.payload)

    app.handler(name)(record)
    return seen
