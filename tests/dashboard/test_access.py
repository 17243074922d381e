"""Callers log in with a key, and see only what their key may do."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.dashboard.conftest import ENVIRONMENT, Dashboard, opened
from tests.dashboard.sample_store import fill_store
from tests.dashboard.tab import Tab
from tests.support.commands import DEADLINE_SECONDS
from tests.surfaces.processes import Home

pytestmark = [pytest.mark.requirement("S5", "U5"), pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def dashboard(home: Home) -> AsyncIterator[Dashboard]:
    """A server that needs a key from everyone."""
    await fill_store(home)
    with home.serving("shop:app", environ=ENVIRONMENT | {"DULY_LOOPBACK_OPEN": "false"}) as server:
        yield Dashboard(home, server)


@pytest_asyncio.fixture(loop_scope="session")
async def tab(browser: Browser, dashboard: Dashboard) -> AsyncIterator[Tab]:
    async with opened(browser, dashboard.url) as found:
        found.expected.append("Failed to load resource")  # the 401 before the login
        yield found


async def log_in(tab: Tab, dashboard: Dashboard, scope: str) -> str:
    """Log in with a new key of that scope; returns the key."""
    key = dashboard.home.ok("keys", "create", f"a {scope} key", "--scope", scope)
    await tab.page.goto(f"{tab.url}/")
    await tab.page.get_by_label("Key").fill(key)
    await tab.click("Log in")
    await expect(tab.page.get_by_role("heading", name="Overview")).to_be_visible()
    return key


async def test_a_wrong_key_is_refused_in_words(tab: Tab) -> None:
    await tab.page.goto(f"{tab.url}/")
    await tab.page.get_by_label("Key").fill("duly_nothing")
    await tab.click("Log in")
    await expect(tab.page.get_by_role("alert")).to_contain_text("not valid")


async def test_the_session_is_a_cookie_that_scripts_cannot_read(
    tab: Tab, dashboard: Dashboard
) -> None:
    key = await log_in(tab, dashboard, "operate")
    (cookie,) = await tab.page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    stored = await tab.page.evaluate(
        "document.cookie + JSON.stringify({ ...localStorage, ...sessionStorage })"
    )
    assert key not in stored
    assert cookie["value"] not in stored
    await tab.page.reload()
    await expect(tab.page.get_by_role("heading", name="Overview")).to_be_visible()


async def test_logging_out_ends_the_session(tab: Tab, dashboard: Dashboard) -> None:
    await log_in(tab, dashboard, "operate")
    (cookie,) = await tab.page.context.cookies()
    await tab.click("Log out")
    await expect(tab.button("Log in")).to_be_visible()
    assert await tab.page.context.cookies() == []
    headers = {"cookie": f"{cookie['name']}={cookie['value']}"}
    async with asyncio.timeout(DEADLINE_SECONDS):  # servers remember a key for a second
        while (await tab.page.context.request.get(f"{tab.url}/v1/status", headers=headers)).ok:
            pass


async def test_a_revoked_key_leads_back_to_the_login(tab: Tab, dashboard: Dashboard) -> None:
    key = await log_in(tab, dashboard, "operate")
    dashboard.home.ok("keys", "revoke", key.split("_")[1])
    await tab.press("g", "d")
    await expect(tab.button("Log in")).to_be_visible(timeout=10_000)


OPERATIONS = [
    "Pause",
    "Resume",
    "Retry",
    "Edit",
    "Remove",
    "Add",
    "Create",
    "Test",
    "Drain",
    "Revoke",
    "Hold",
    "Release",
    "Give up",
    "Discard",
    "Replace",
    "Replay",
]
PLACES = [
    "deliveries?state=pending&q=tag:waiting",
    "schedules",
    "schedules/weekly-report",
    "calendars",
    "streams/blocked-line",
    "batches",
    "dead_letters",
    "dead_letters?view=list",
    "dead_letters?view=recovery",
    "endpoints",
    "endpoints/billing",
    "limits",
    "workers",
    "settings",
    "settings/keys",
]


async def test_a_key_that_may_only_read_sees_no_operations(tab: Tab, dashboard: Dashboard) -> None:
    await log_in(tab, dashboard, "read")
    main = tab.page.get_by_role("main")
    async with dashboard.home.app() as app:
        (dead, *_) = await app.dead_letters.list()
        await app.recovery.set("unknown", tries=1, then="hold")
    for place in (*PLACES, f"deliveries/{dead.id}"):
        await tab.open(place)
        await expect(main.get_by_text("Loading…")).to_have_count(0)
        await expect(main.get_by_role("checkbox")).to_have_count(0)
        for name in OPERATIONS:
            await expect(main.get_by_role("button", name=name)).to_have_count(0)
