"""Lists and figures follow the store, unless they are paused or rows are selected."""

import asyncio
import re

import pytest
from playwright.async_api import Locator, Route, expect

from tests.dashboard.conftest import Dashboard
from tests.dashboard.sample_store import DAY
from tests.dashboard.tab import Tab

pytestmark = [pytest.mark.requirement("S5", "U3"), pytest.mark.asyncio(loop_scope="session")]


def rows(tab: Tab) -> Locator:
    """The rows of the table, without its head."""
    return tab.page.get_by_role("main").locator("tbody tr")


async def read_again(tab: Tab) -> None:
    """Let the page read its data twice: the first answer is shown when the second one arrives."""
    for _ in range(2):
        async with tab.page.expect_response("**/v1/**") as answer:
            # Not once: the page may not have set its timer yet.
            while not answer.is_done():
                await tab.page.clock.run_for(31_000)


async def assert_not_read_again(tab: Tab) -> None:
    """Let a long time pass, in which the page asks the server for nothing."""
    before = len(tab.requests)
    await tab.page.clock.run_for(60_000)
    assert tab.requests[before:] == []


async def test_a_new_delivery_appears_by_itself(tab: Tab, dashboard: Dashboard) -> None:
    await tab.open("deliveries?q=tag:appears")
    await tab.see("No delivery matches")
    await dashboard.home.deliver("works", 1, after=DAY, tags=["appears"])
    await expect(rows(tab)).to_have_count(1)


async def test_figures_come_from_the_event_stream(tab: Tab, dashboard: Dashboard) -> None:
    await tab.open()
    await expect(tab.page.get_by_role("banner").get_by_role("status")).to_have_text("Live")
    figure = tab.page.get_by_role("main").get_by_role("link", name="Dead letters").first
    await expect(figure.locator(".value")).to_have_text(re.compile(r"\d"))
    before = int(await figure.locator(".value").inner_text())
    await dashboard.home.deliver("fails", "once more")
    await expect(figure.locator(".value")).to_have_text(str(before + 1))


async def test_nothing_changes_while_it_is_paused(tab: Tab, dashboard: Dashboard) -> None:
    await tab.page.clock.install()
    await tab.open("deliveries?q=tag:paused")
    await tab.see("No delivery matches")
    await tab.click("Pause")
    await expect(tab.page.get_by_role("banner").get_by_role("status")).to_have_text("Paused")
    await dashboard.home.deliver("works", 1, after=DAY, tags=["paused"])
    await assert_not_read_again(tab)
    await expect(rows(tab)).to_have_count(0)
    await tab.click("Resume")
    await read_again(tab)
    await expect(rows(tab)).to_have_count(1)


async def test_a_list_that_took_long_is_read_again_later(tab: Tab) -> None:
    """It takes half a second, so ten seconds pass before the next one, not three."""
    held: asyncio.Queue[Route] = asyncio.Queue()
    await tab.page.clock.install()
    await tab.open("endpoints")
    await tab.page.route("**/v1/endpoints?*", held.put)
    while held.empty():
        await tab.page.clock.run_for(3500)
    answer = await held.get()
    await tab.page.clock.run_for(500)
    async with tab.page.expect_response("**/v1/endpoints?*"):
        await answer.fulfill(json={"items": [], "next": None})
    await tab.see("No endpoints yet")
    await tab.page.clock.run_for(9000)
    assert held.empty()
    await tab.page.clock.run_for(31_000)
    await (await held.get()).abort()
    tab.expected.append("ERR_FAILED")


async def test_the_list_does_not_move_while_rows_are_selected(
    tab: Tab, dashboard: Dashboard
) -> None:
    ids = [await dashboard.home.deliver("works", 1, after=DAY, tags=["held"]) for _ in range(3)]
    await tab.page.clock.install()
    await tab.open("deliveries?q=tag:held")
    await tab.role("checkbox", f"Select delivery {ids[1]}").check()
    await tab.see("Held while selected")
    await dashboard.home.deliver("works", 1, after=DAY, tags=["held"])
    await assert_not_read_again(tab)
    await expect(rows(tab)).to_have_count(3)
    await expect(tab.role("checkbox", f"Select delivery {ids[1]}")).to_be_checked()
    await tab.click("Clear the selection")
    await read_again(tab)
    await expect(rows(tab)).to_have_count(4)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("endpoints/billing", "Rotate the secret"),
        ("schedules/weekly-report", "Backfill…"),
        ("settings", "Revoke"),
        ("streams/blocked-line", "Retry the head"),
        ("workers", "Drain"),
    ],
)
async def test_the_focus_stays_on_a_button_when_the_page_is_read_again(
    tab: Tab, place: str, name: str
) -> None:
    await tab.page.clock.install()
    await tab.open(place)
    await tab.button(name).focus()
    await read_again(tab)
    await expect(tab.button(name)).to_be_focused()


async def test_an_opened_traceback_stays_open_when_the_page_is_read_again(
    tab: Tab, dashboard: Dashboard
) -> None:
    async with dashboard.home.app() as app:
        (letter, *_) = await app.list(tag="broken")
    await tab.page.clock.install()
    await tab.open(f"deliveries/{letter.id}")
    await tab.page.get_by_text("Traceback of ValueError").click()
    await read_again(tab)
    await expect(tab.page.locator("details[open]")).to_have_count(1)


async def test_a_tab_stays_live_when_the_one_that_connected_is_closed(
    tab: Tab, dashboard: Dashboard
) -> None:
    second = await Tab.new(tab.page.context, dashboard.url)
    for each in (tab, second):
        await each.open()
        await expect(each.page.get_by_role("banner").get_by_role("status")).to_have_text("Live")
    badge = second.page.get_by_role("navigation", name="Pages").locator(".badge")
    before = int(await badge.inner_text())
    await tab.page.close()
    await dashboard.home.deliver("fails", "for the second tab")
    await expect(badge).to_have_text(str(before + 1))
    assert second.unexpected() == []


@pytest.mark.long
async def test_nine_tabs_share_one_connection(tab: Tab, dashboard: Dashboard) -> None:
    # A browser opens six connections to a server: the seventh stream of events would block it.
    tabs = [tab, *[await Tab.new(tab.page.context, dashboard.url) for _ in range(8)]]
    for each in tabs:
        await each.open("dead_letters")
        await expect(each.page.get_by_role("banner").get_by_role("status")).to_have_text("Live")
    badges = [each.page.get_by_role("navigation", name="Pages").locator(".badge") for each in tabs]
    before = int(await badges[-1].inner_text())
    await dashboard.home.deliver("fails", "for nine tabs")
    for badge in badges:
        await expect(badge).to_have_text(str(before + 1))
    assert [each.unexpected() for each in tabs] == [[]] * 9
