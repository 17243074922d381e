"""Fixtures: a browser for the session, a served store for a module, a tab for a test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.dashboard.sample_store import HERE, fill_store
from tests.dashboard.tab import Tab
from tests.support.chromium import find_chromium
from tests.surfaces.processes import Home, Running

# A busy machine is not a failure.
expect.set_options(timeout=30_000)
ENVIRONMENT = {"DULY_EGRESS_ALLOW": HERE}


@dataclass(frozen=True)
class Dashboard:
    """A store with something of everything, and the server in front of it."""

    home: Home
    server: Running

    @property
    def url(self) -> str:
        return self.server.url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox"]
        )
        yield browser
        await browser.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A folder with an empty database."""
    folder = tmp_path_factory.mktemp("dashboard")
    return Home(folder, f"sqlite:///{folder}/duly.db")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def dashboard(home: Home) -> AsyncIterator[Dashboard]:
    """`duly serve` with a filled store, for all tests of a module."""
    await fill_store(home)
    with home.serving("shop:app", environ=ENVIRONMENT) as server:
        yield Dashboard(home, server)


@asynccontextmanager
async def opened(browser: Browser, url: str, **options: Any) -> AsyncIterator[Tab]:
    """A tab in a new profile; at its end nothing may have gone wrong in it."""
    context = await browser.new_context(**options)
    tab = await Tab.new(context, url)
    try:
        yield tab
    finally:
        await context.close()
    assert tab.unexpected() == []


@pytest_asyncio.fixture(loop_scope="session")
async def tab(browser: Browser, dashboard: Dashboard) -> AsyncIterator[Tab]:
    """A tab that shows nothing yet."""
    async with opened(browser, dashboard.url) as found:
        yield found
