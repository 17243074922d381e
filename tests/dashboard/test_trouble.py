"""Hostile data is shown safely, and trouble with the server is told and overcome."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from duly import App
from tests.dashboard.conftest import ENVIRONMENT, Dashboard, opened
from tests.dashboard.sample_store import DAY
from tests.dashboard.tab import Tab
from tests.support.postgres import free_port
from tests.surfaces.processes import Home

pytestmark = [pytest.mark.requirement("S5", "U1"), pytest.mark.asyncio(loop_scope="session")]

HTML = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
LONG = "n" * 255
PLACES = [
    *("overview", "deliveries", "schedules", "streams", "dead_letters", "endpoints", "workers"),
    *("dead_letters?view=list", "dead_letters?view=poison", "dead_letters?view=figures"),
    *("settings", "settings/alerts", "settings/audit", "settings/about"),
    *("schedules/weekly-report", "streams/blocked-line", "endpoints/billing"),
]


async def shown_payload(tab: Tab, dashboard: Dashboard, payload: Any) -> str:
    """The payload of a new delivery, as its page shows it."""
    app = App(dashboard.home.database, payload_limit=1_048_576, environment={})
    app.expect("works")
    async with app:
        made = await app.deliver("works", payload, after=DAY)
    await tab.open(f"deliveries/{made.id}")
    return await tab.page.get_by_label("Payload", exact=True).inner_text()


async def test_a_payload_with_html_and_control_characters_is_text(
    tab: Tab, dashboard: Dashboard
) -> None:
    payload = {HTML: HTML, "controls": "\x00\x1b[31m\u202e\u2028"}
    shown = await shown_payload(tab, dashboard, payload)
    assert json.loads(shown) == payload
    assert await tab.page.locator("main img, main script").count() == 0


async def test_a_big_integer_is_exact(tab: Tab, dashboard: Dashboard) -> None:
    shown = await shown_payload(tab, dashboard, {"big": 12345678901234567890})
    assert re.sub(r"\s", "", shown) == '{"big":12345678901234567890}'


async def test_a_payload_of_a_megabyte_is_shown(tab: Tab, dashboard: Dashboard) -> None:
    payload = {"long": "x" * 600_000, "many": list(range(70_000))}
    await shown_payload(tab, dashboard, payload)
    shown = tab.page.get_by_label("Payload", exact=True)
    assert await shown.text_content() == json.dumps(payload, indent=2)
    # Laid out in one piece it would take seconds.
    assert len(await shown.locator(".piece").all()) > 100


async def test_a_name_of_255_characters_fits(browser: Browser, dashboard: Dashboard) -> None:
    await dashboard.home.deliver("works", 1, stream=LONG, tags=["long"], after=DAY)
    async with opened(browser, dashboard.url, viewport={"width": 400, "height": 800}) as tab:
        for place in (f"streams/{LONG}", "streams", "deliveries?q=tag:long"):
            await tab.open(place)
            await expect(tab.page.get_by_text("Loading…")).to_have_count(0)
            assert await tab.page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("name", ["a/b?c#d %41", "<b>&amp;", "ü 日本 🎂"])
async def test_names_with_special_characters_have_pages(
    tab: Tab, dashboard: Dashboard, name: str
) -> None:
    await dashboard.home.deliver("works", 1, stream=name, after=DAY)
    await tab.open("streams")
    await tab.role("link", name).click()
    await expect(tab.page.get_by_role("heading", name=name, level=1, exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (429, '{"status": 429, "detail": "too many requests"}', "too many requests"),
        (500, "<html>oops", "The server answered 500."),
        (None, "", "The server cannot be reached."),
    ],
)
async def test_a_server_in_trouble_is_told_and_the_page_recovers(
    tab: Tab, status: int | None, body: str, told: str
) -> None:
    tab.expected.append("Failed to load resource")

    async def refuse(route: Route) -> None:
        if status is None:
            await route.abort()
        else:
            await route.fulfill(status=status, body=body, headers={"retry-after": "1"})

    await tab.page.route("**/v1/schedules?**", refuse)
    await tab.open("schedules")
    await expect(tab.page.get_by_role("alert")).to_contain_text(told)
    await tab.page.unroute("**/v1/schedules?**")
    await tab.click("Try again")
    await tab.see("weekly-report")
    await expect(tab.page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("place", PLACES)
async def test_no_page_says_that_there_is_nothing_before_it_knows(tab: Tab, place: str) -> None:
    tab.expected.append("Failed to load resource")
    await tab.page.route(re.compile(r"/v1/(?!session)"), lambda route: route.abort())
    await tab.page.goto(f"{tab.url}/#/{place}")
    await expect(tab.page.get_by_role("alert")).to_contain_text("cannot be reached")
    await assert_says_nothing_of_none(tab)


@pytest.mark.parametrize("place", PLACES)
async def test_no_page_says_that_there_is_nothing_before_an_answer(tab: Tab, place: str) -> None:
    await tab.page.route(re.compile(r"/v1/(?!session)"), lambda _: None)
    await tab.page.goto(f"{tab.url}/#/{place}")
    await expect(tab.page.locator("main h1, main nav").first).to_be_visible()
    await assert_says_nothing_of_none(tab)


async def assert_says_nothing_of_none(tab: Tab) -> None:
    shown = await tab.page.get_by_role("main").inner_text()
    assert not re.search(r"\b(Nothing|No|none|0) ", shown), shown


async def test_operations_appear_when_the_first_question_was_refused(tab: Tab) -> None:
    tab.expected.append("Failed to load resource")
    await tab.page.route("**/v1/session", lambda route: route.fulfill(status=500), times=1)
    await tab.open("schedules")
    await expect(tab.button("Add a schedule")).to_be_visible(timeout=10_000)


async def test_a_refused_operation_is_told_and_changes_nothing(
    tab: Tab, dashboard: Dashboard
) -> None:
    tab.expected.append("Failed to load resource")
    id = await dashboard.home.deliver("works", 1, after=DAY)
    await tab.open(f"deliveries/{id}")
    await tab.click("Cancel")
    async with dashboard.home.app() as app:
        await app.retry(id)
    await tab.see("completed")
    await tab.dialog.get_by_role("button", name="Cancel it").click()
    await expect(tab.dialog.get_by_role("alert")).to_contain_text("completed")
    assert (await dashboard.home.find(id)).state == "completed"


async def test_a_killed_server_is_told_and_the_page_recovers(
    browser: Browser, tmp_path: Path
) -> None:
    home = Home(tmp_path, f"sqlite:///{tmp_path}/duly.db")
    port = str(free_port())
    with home.running("serve", "--port", port, environ=ENVIRONMENT) as server:
        url = server.wait_for("Serving")["url"]
        async with opened(browser, url) as tab:
            tab.expected.append("Failed to load resource")
            status = tab.page.get_by_role("banner").get_by_role("status")
            await tab.open("schedules")
            await expect(status).to_have_text("Live")
            server.signal(signal.SIGKILL)
            await expect(tab.page.get_by_role("alert")).to_contain_text(
                "cannot be reached", timeout=15_000
            )
            await expect(status).to_have_text("No connection")
            with home.running("serve", "--port", port, environ=ENVIRONMENT) as again:
                again.wait_for("Serving")
                await expect(tab.page.get_by_role("alert")).to_have_count(0, timeout=15_000)
                await expect(status).to_have_text("Live", timeout=15_000)
