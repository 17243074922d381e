"""Schedules that left the code are shown above the schedules, and removed from there."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from tests.dashboard.conftest import Dashboard, opened
from tests.dashboard.sample_store import HANDLERS
from tests.dashboard.tab import Tab
from tests.dashboard.test_access import log_in
from tests.dashboard.test_accessibility import violations
from tests.support.axe import find_axe
from tests.surfaces.processes import Home

pytestmark = [pytest.mark.requirement("P9", "S5"), pytest.mark.asyncio(loop_scope="session")]

LEAVES = """

@app.schedule(duly.cron("0 0 1 1 *"), name="{0}")
@app.handler("{0}")
async def send_{0}(delivery):
    pass
"""
KEPT = LEAVES.format("kept")


@contextmanager
def serving(home: Home, **environ: str) -> Iterator[Dashboard]:
    """A server whose code declares two schedules less than before."""
    old = HANDLERS + KEPT + LEAVES.format("weekly") + LEAVES.format("nightly")
    home.write("shop.py", old)
    with home.serving("shop:app"):
        pass
    home.write("shop.py", HANDLERS + KEPT)
    with home.serving("shop:app", environ=environ) as server:
        yield Dashboard(home, server)


@pytest_asyncio.fixture(loop_scope="session")
async def dashboard(home: Home) -> AsyncIterator[Dashboard]:
    with serving(home) as found:
        yield found


def notice(tab: Tab) -> Locator:
    return tab.role("region", "Schedules that left the code")


async def test_they_are_listed_and_removed_after_a_question(tab: Tab, dashboard: Dashboard) -> None:
    await tab.open("schedules")
    await expect(notice(tab)).to_contain_text("no longer declares 2 schedules, and they still")
    await expect(notice(tab)).to_contain_text("nightly (shop.send_nightly)")
    await expect(notice(tab).get_by_role("link", name="weekly")).to_be_visible()
    await notice(tab).get_by_role("button", name="Remove…").click()
    await expect(tab.dialog).to_contain_text("nightly, weekly")
    await tab.confirm("Back")
    await notice(tab).get_by_role("link", name="weekly").click()
    await tab.see_in_main("shop.send_weekly")
    await tab.open("schedules")
    await notice(tab).get_by_role("button", name="Remove…").click()
    await tab.confirm("Remove")
    await tab.see_message("2 schedules removed")
    await expect(notice(tab)).to_have_count(0)
    await expect(tab.role("link", "weekly")).to_have_count(0)
    await expect(tab.role("link", "kept")).to_be_visible()
    async with dashboard.home.app() as app:
        assert [each.name for each in await app.schedules.list()] == ["kept"]


async def test_the_notice_is_accessible(browser: Browser, dashboard: Dashboard) -> None:
    async with opened(browser, dashboard.url) as tab:
        await tab.page.add_init_script(find_axe())
        await tab.open("schedules")
        await expect(notice(tab)).to_be_visible()
        assert await violations(tab) == []


async def test_the_notice_fits_a_phone(browser: Browser, dashboard: Dashboard) -> None:
    size = {"width": 400, "height": 800}
    async with opened(browser, dashboard.url, viewport=size) as tab:
        await tab.open("schedules")
        await expect(notice(tab)).to_be_visible()
        assert await tab.page.evaluate("document.documentElement.scrollWidth") <= 400


async def test_a_key_that_may_only_read_sees_them_without_the_button(
    browser: Browser, home: Home
) -> None:
    home.ok("keys", "create", "me", "--scope", "admin")
    with serving(home, DULY_LOOPBACK_OPEN="false") as dashboard:
        async with opened(browser, dashboard.url) as tab:
            tab.expected.append("Failed to load resource")  # the 401 before the login
            await log_in(tab, dashboard, "read")
            await tab.open("schedules")
            await expect(notice(tab)).to_contain_text("weekly")
            await expect(notice(tab).get_by_role("button")).to_have_count(0)
