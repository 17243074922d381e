"""The dashboard is usable in the dark, and on a screen as narrow as a phone's."""

import pytest
from playwright.async_api import Browser, expect

from tests.dashboard.conftest import Dashboard, opened
from tests.dashboard.test_pages import PAGES

pytestmark = [pytest.mark.requirement("S5", "U4"), pytest.mark.asyncio(loop_scope="session")]

BRIGHTNESS = """
() => {
  const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
  return (r + g + b) / 3;
}
"""


async def test_it_is_dark_where_the_system_is(browser: Browser, dashboard: Dashboard) -> None:
    async with opened(browser, dashboard.url, color_scheme="dark") as tab:
        await tab.open()
        assert await tab.page.evaluate(BRIGHTNESS) < 60
        await tab.press("t")
        assert await tab.page.evaluate(BRIGHTNESS) > 200


async def test_the_chosen_theme_is_remembered(browser: Browser, dashboard: Dashboard) -> None:
    async with opened(browser, dashboard.url, color_scheme="light") as tab:
        await tab.open()
        await tab.press("t", "t")
        await tab.page.reload()
        await expect(tab.page.locator("html")).to_have_attribute("data-theme", "dark")
        assert await tab.page.evaluate(BRIGHTNESS) < 60


async def test_no_page_scrolls_sideways_on_a_phone(browser: Browser, dashboard: Dashboard) -> None:
    size = {"width": 400, "height": 800}
    wide = {}
    async with opened(browser, dashboard.url, viewport=size) as tab:
        for place, (title, texts) in PAGES.items():
            await tab.open(place)
            await expect(tab.role("heading", title).first).to_be_visible()
            main = tab.page.get_by_role("main")
            await expect(main.get_by_text(texts[0]).first).to_be_attached()
            wide[place] = await tab.page.evaluate("document.documentElement.scrollWidth")
    assert {place: width for place, width in wide.items() if width > 400} == {}


async def test_the_menu_of_a_phone_opens_and_closes(browser: Browser, dashboard: Dashboard) -> None:
    async with opened(browser, dashboard.url, viewport={"width": 400, "height": 800}) as tab:
        await tab.open()
        streams = tab.page.get_by_role("navigation", name="Pages").get_by_role(
            "link", name="Streams"
        )
        await expect(streams).not_to_be_in_viewport()
        await tab.click("Menu")
        await streams.click()
        await expect(tab.page.get_by_role("heading", name="Streams", level=1)).to_be_visible()
        await expect(streams).not_to_be_in_viewport()
