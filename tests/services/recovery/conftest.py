"""Apps on the same store with other settings, one after the other."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from duly import App
from duly.testing import VirtualClock
from tests.services.work import Work

Deploy = Callable[..., Awaitable[Work]]


@pytest.fixture
async def deploy(database_url: str, clock: VirtualClock) -> AsyncIterator[Deploy]:
    """Opens an app with these settings in place of the one before."""
    async with AsyncExitStack() as stack:

        async def open_next(**settings: Any) -> Work:
            await stack.aclose()
            given = {"recovery_rate": 1000.0} | settings
            app = App(database_url, clock=clock, environment={}, **given)
            return Work(await stack.enter_async_context(app))

        yield open_next
