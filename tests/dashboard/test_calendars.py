"""Calendars are set, imported and removed on their page, and used in the rules of schedules."""

from datetime import date

import pytest
from playwright.async_api import expect

import duly
from tests.dashboard.conftest import Dashboard
from tests.dashboard.tab import Tab

pytestmark = [pytest.mark.requirement("L6", "S5", "U2"), pytest.mark.asyncio(loop_scope="session")]
FILE = (
    "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20961226\nSUMMARY:Second day\n"
    "END:VEVENT\nEND:VCALENDAR\n"
)


async def test_a_calendar_is_added_edited_imported_and_removed(
    tab: Tab, dashboard: Dashboard
) -> None:
    tab.expected.append("Failed to load resource")  # a date that is none
    await tab.open("calendars")
    await tab.click("Add a calendar")
    await tab.dialog.get_by_label("Name").fill("fairs")
    await tab.dialog.get_by_label("Closed dates").fill("2096-12-32 Christmas")
    await tab.dialog.get_by_role("button", name="Add").click()
    await expect(tab.dialog.get_by_role("alert")).to_contain_text("closed")
    await tab.dialog.get_by_label("Closed dates").fill("2096-12-25 Christmas day\n\n2096-12-24")
    await tab.dialog.get_by_label("Weekend").fill("Friday, saturday")
    await tab.confirm("Add")
    row = tab.page.get_by_role("row").filter(has_text="fairs")
    await expect(row).to_contain_text("friday, saturday")
    async with dashboard.home.app() as app:
        found = await app.calendars.get("fairs")
    assert found.closed == {date(2096, 12, 24): "", date(2096, 12, 25): "Christmas day"}
    await row.get_by_role("button", name="Edit").click()
    await expect(tab.dialog.get_by_label("Closed dates")).to_have_value(
        "2096-12-24\n2096-12-25 Christmas day"
    )
    await tab.dialog.get_by_label("Closed dates").fill("2096-12-31")
    await tab.confirm("Save")
    await expect(row).to_contain_text("2096-12-31")
    await tab.click("Import a file…")
    await tab.dialog.get_by_label("Name of the calendar").fill("fairs")
    await tab.dialog.get_by_label("Content of the file (.ics)").fill(FILE)
    await tab.confirm("Import")
    await expect(row).to_contain_text("2096-12-26")
    await row.get_by_role("button", name="Remove").click()
    await tab.confirm("Remove it")
    await expect(row).to_have_count(0)


async def test_a_schedule_uses_a_calendar_and_says_why(tab: Tab, dashboard: Dashboard) -> None:
    async with dashboard.home.app() as app:
        await app.calendars.set("weekends")
        await app.schedule("seldom", duly.cron("0 9 * * *"), "works")
    await tab.open("schedules/seldom")
    await tab.click("Edit")
    preview = tab.dialog.get_by_role("region", name="Preview")
    await tab.dialog.get_by_label("Calendar").fill("weekends")
    await expect(preview).to_contain_text("not on closed days of weekends")
    await expect(preview).to_contain_text("left out: weekend (calendar weekends)")
    await tab.dialog.get_by_label("Rule", exact=True).fill("0 9 * * SAT")
    await tab.dialog.get_by_label("On closed days").select_option("next")
    await expect(preview).to_contain_text(": weekend (calendar weekends)")
    await tab.confirm("Save")
    await tab.see_in_main("moved to the next business day of weekends")
    await tab.see_in_main("moved from")
    async with dashboard.home.app() as app:
        rule = (await app.schedules.get("seldom")).rule
    assert (rule.cron, rule.calendar, rule.move) == ("0 9 * * SAT", "weekends", "next")
    await tab.click("Edit")
    await tab.dialog.get_by_label("Calendar").fill("")
    await tab.confirm("Save")
    async with dashboard.home.app() as app:
        assert (await app.schedules.get("seldom")).rule.calendar is None
