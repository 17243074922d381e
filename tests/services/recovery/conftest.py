"""Apps on the same store with other settings."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from duly import App
from duly.testing import VirtualClock

MakeApp = Callable[..., Awaitable[App]]


@pytest.fixture
async def make_app(database_url: str, clock: VirtualClock) -> AsyncIterator[MakeApp]:
    """Opens an app with these settings; it is closed at the end."""
    async with AsyncExitStack() as stack:

        async def make(**settings: Any) -> App:
            app = App(database_url, clock=clock, environment={}, **settings)
            return await stack.enter_async_context(app)

        yield make
