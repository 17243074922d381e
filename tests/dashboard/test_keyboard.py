"""Everything can be done without a mouse."""

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import Dashboard
from tests.dashboard.sample_store import DAY
from tests.dashboard.tab import Tab

pytestmark = [pytest.mark.requirement("S5", "U4"), pytest.mark.asyncio(loop_scope="session")]

PLACES = {
    "o": "Overview",
    "d": "Deliveries",
    "s": "Schedules",
    "m": "Streams",
    "l": "Dead letters",
    "e": "Endpoints",
    "w": "Workers",
    ",": "Settings",
}


async def test_g_and_a_letter_go_to_each_page(tab: Tab) -> None:
    await tab.open("schedules")
    for letter, title in PLACES.items():
        await tab.press("g", letter)
        await expect(tab.page.get_by_role("heading", name=title, level=1)).to_be_visible()
        await expect(tab.page).to_have_title(f"{title} – duly")


async def test_rows_are_chosen_selected_and_opened(tab: Tab, dashboard: Dashboard) -> None:
    ids = [await dashboard.home.deliver("works", 1, after=DAY, tags=["keys"]) for _ in range(3)]
    await tab.open("deliveries?q=tag:keys")
    await expect(tab.role("checkbox", f"Select delivery {ids[0]}")).to_be_visible()
    await tab.press("j", "j", "k", "j", "x")
    await expect(tab.role("checkbox", f"Select delivery {ids[1]}")).to_be_checked()
    await tab.press("j", "Enter")
    await expect(tab.page).to_have_url(f"{tab.url}/#/deliveries/{ids[0]}")


async def test_a_delivery_is_cancelled_with_keys_only(tab: Tab, dashboard: Dashboard) -> None:
    id = await dashboard.home.deliver("works", 1, after=DAY, tags=["by-keys"])
    await tab.open("deliveries")
    await tab.press("/")
    await expect(tab.role("searchbox", "Search deliveries")).to_be_focused()
    await tab.page.keyboard.type("tag:by-keys")
    await tab.press("Enter", "Escape")
    await tab.see("1 row shown")
    await tab.press("j", "Enter")
    await expect(tab.button("Cancel")).to_be_visible()
    await tab.button("Cancel").focus()
    await tab.press("Enter")
    await expect(tab.dialog.get_by_role("button", name="Cancel it")).to_be_focused()
    await tab.press("Enter")
    await tab.see_message("Cancelled")
    assert (await dashboard.home.find(id)).state == "cancelled"


async def test_a_dialog_closes_with_escape_and_gives_the_focus_back(
    tab: Tab, dashboard: Dashboard
) -> None:
    id = await dashboard.home.deliver("works", 1, after=DAY)
    await tab.open(f"deliveries/{id}")
    await tab.click("Cancel")
    await tab.press("Escape")
    await expect(tab.dialog).to_have_count(0)
    await expect(tab.button("Cancel")).to_be_focused()
    assert (await dashboard.home.find(id)).state == "pending"


async def test_the_palette_finds_a_command(tab: Tab) -> None:
    await tab.open()
    await tab.press("Control+k")
    await expect(
        tab.role("textbox", "Command").or_(tab.role("searchbox", "Command"))
    ).to_be_focused()
    await tab.page.keyboard.type("go to")
    await tab.press("ArrowDown", "ArrowDown", "ArrowUp")
    await expect(tab.page.get_by_role("option", selected=True)).to_contain_text("Deliveries")
    await tab.press("Enter")
    await expect(tab.page.get_by_role("heading", name="Deliveries", level=1)).to_be_visible()


async def test_question_mark_lists_the_keys_of_the_page(tab: Tab) -> None:
    await tab.open("deliveries")
    await tab.press("?")
    for text in ("Next row", "Select the row", "Go to Dead letters", "Pause or resume"):
        await expect(tab.dialog.get_by_text(text)).to_be_visible()
    await tab.press("Enter")
    await expect(tab.dialog).to_have_count(0)


async def test_letters_typed_into_a_field_are_no_commands(tab: Tab) -> None:
    await tab.open("schedules")
    await tab.press("/")
    await tab.page.keyboard.type("gdptu")
    await expect(tab.page.get_by_role("heading", name="Schedules", level=1)).to_be_visible()
    await expect(tab.page.get_by_role("banner").get_by_role("status")).not_to_have_text("Paused")


async def test_p_pauses_and_t_switches_the_theme(tab: Tab) -> None:
    await tab.open()
    await tab.press("p")
    await tab.see("Paused")
    await tab.press("t")
    await expect(tab.page.locator("html")).to_have_attribute("data-theme", "light")


async def test_the_first_tab_stop_skips_to_the_content(tab: Tab) -> None:
    await tab.open()
    await tab.press("Tab")
    await expect(tab.role("link", "Skip to the content")).to_be_focused()
    await tab.press("Enter")
    await expect(tab.page.get_by_role("main")).to_be_focused()
