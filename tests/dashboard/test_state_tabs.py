"""The tabs of the deliveries show how many there are of each state."""

import json

import pytest
from playwright.async_api import Locator, Route, expect

from tests.dashboard.conftest import Dashboard
from tests.dashboard.sample_store import DAY
from tests.dashboard.tab import Tab

pytestmark = [pytest.mark.requirement("S5"), pytest.mark.asyncio(loop_scope="session")]


def tabs(tab: Tab) -> Locator:
    """The tabs of the states."""
    return tab.page.get_by_role("navigation", name="States").get_by_role("link")


async def test_tabs_count_what_matches_the_search(tab: Tab, dashboard: Dashboard) -> None:
    for _ in range(3):
        await dashboard.home.deliver("works", 1, after=DAY, tags=["counted"])
    await tab.open("deliveries?q=tag:counted")
    expected = ["all 3", "pending 3", "processing 0", "completed 0", "dead 0", "cancelled 0"]
    await expect(tabs(tab)).to_have_text(expected)


async def test_counts_follow_an_operation(tab: Tab, dashboard: Dashboard) -> None:
    id = await dashboard.home.deliver("works", 1, after=DAY, tags=["followed"])
    await tab.open("deliveries?q=tag:followed")
    await expect(tabs(tab).filter(has_text="pending")).to_have_text("pending 1")
    await tab.role("checkbox", f"Select delivery {id}").check()
    await tab.click("Cancel")
    await tab.confirm("Cancel them")
    await expect(tabs(tab).filter(has_text="cancelled")).to_have_text("cancelled 1")
    await expect(tabs(tab).filter(has_text="pending")).to_have_text("pending 0")


async def test_a_count_that_has_reached_its_limit_says_so(tab: Tab) -> None:
    counts = {
        "counted_up_to": 10_000,
        "capped": ["completed", "cancelled"],
        "states": {
            "pending": 40,
            "processing": 2,
            "completed": 9_958,
            "dead": 10_000,
            "cancelled": 0,
        },
    }
    await tab.page.route("**/v1/deliveries/counts*", lambda route: answer(route, counts))
    await tab.open("deliveries")
    expected = ["all 10,000+", "pending 40", "processing 2", "completed 9,958+", "dead 10,000"]
    await expect(tabs(tab)).to_have_text([*expected, "cancelled 0+"])


async def answer(route: Route, document: object) -> None:
    await route.fulfill(body=json.dumps(document), content_type="application/json")


async def test_a_tab_replaces_a_typed_state(tab: Tab) -> None:
    await tab.open("deliveries?q=state:dead tag:broken")
    await expect(tabs(tab).filter(has_text="dead")).to_have_attribute("aria-current", "page")
    await tabs(tab).filter(has_text="completed").click()
    await tab.see("No delivery matches")
    await expect(tab.role("searchbox", "Search deliveries")).to_have_value("tag:broken")
