"""Every page opens and shows what the store has."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.dashboard.conftest import Dashboard, opened
from tests.dashboard.tab import Tab
from tests.surfaces.processes import Home

pytestmark = [pytest.mark.requirement("S5", "U1"), pytest.mark.asyncio(loop_scope="session")]

PAGES = {
    "": ("Overview", ["4 dead letters need a decision.", "1 stream is blocked"]),
    "deliveries": ("Deliveries", ["works", "retry", "dead", "cancelled", "processing"]),
    "schedules": ("Schedules", ["weekly-report", "leap-day", "resting", "paused"]),
    "schedules/weekly-report": ("weekly-report", ["Europe/Oslo", "Next runs"]),
    "calendars": ("Calendars", ["nrw", "saturday, sunday", "2096-12-25"]),
    "batches": ("Batches", ["november", "closed", "1 ended"]),
    "streams": ("Streams", ["blocked-line", "open-line", "paused-line"]),
    "streams/blocked-line": ("blocked-line", ["Retry the head", "no 0"]),
    "dead_letters": ("Dead letters", ["fails"]),
    "dead_letters?view=list": ("Dead letters", ["fails"]),
    "dead_letters?view=figures": ("Dead letters", ["handler_exception", "waits for another"]),
    "dead_letters?view=recovery": ("Dead letters", ["No policies", "No generations"]),
    "endpoints": ("Endpoints", ["billing", "quiet"]),
    "endpoints/billing": ("billing", ["the bookkeeper", "5 per second", "customer: 2 at once"]),
    "limits": ("Limits", ["endpoint:billing", "5 per second", "customer: 2 at once"]),
    "limits/endpoint:billing": ("endpoint:billing", ["No key was used lately"]),
    "workers": ("Workers", ["alive"]),
    "settings": ("Settings", ["of a friend"]),
    "settings/alerts": ("Settings", ["Alerts"]),
    "settings/audit": ("Settings", ["schedule.pause"]),
    "settings/about": ("Settings", ["sqlite"]),
}


@pytest.mark.parametrize("place", PAGES)
async def test_each_page_shows_its_data(tab: Tab, place: str) -> None:
    title, texts = PAGES[place]
    await tab.open(place)
    await expect(tab.role("heading", title).first).to_be_visible()
    for text in texts:
        await tab.see_in_main(text)


@pytest.mark.requirement("D12")
async def test_the_overview_says_that_it_catches_up(browser: Browser, tmp_path: Path) -> None:
    home = Home(tmp_path, f"sqlite:///{tmp_path}/duly.db")
    await home.deliver("stays", 1, at=datetime.now(UTC) - timedelta(hours=2))
    # No worker has this handler, so the delivery stays late.
    with home.serving() as server:
        async with opened(browser, server.url) as tab:
            await tab.open()
            banner = tab.page.get_by_role("main").get_by_role("status")
            await expect(banner).to_contain_text("Catching up: 1 delivery is late")
            await expect(banner).to_contain_text("2 h ago")


@pytest.mark.requirement("F11")
async def test_failures_are_counted_by_reason_and_by_attempts(tab: Tab) -> None:
    await tab.open("dead_letters?view=figures")
    for name, text in (
        ("Failed attempts by reason", "handler_exception"),
        ("Deliveries by attempts", "1"),
        ("Waiting retries", "1 delivery waits for another attempt"),
        ("Likely poison", "0 deliveries have killed a worker"),
    ):
        await expect(tab.page.get_by_label(name)).to_contain_text(text)


@pytest.mark.requirement("F7")
async def test_blocked_streams_come_first(tab: Tab, dashboard: Dashboard) -> None:
    await dashboard.home.deliver("works", 1, stream="a-line", after=timedelta(days=1))
    await tab.open("streams")
    rows = tab.page.locator("main tbody tr")
    await expect(rows.filter(has_text="a-line")).to_have_count(1)
    await expect(rows.first).to_contain_text("blocked-line")
    await expect(rows.filter(has_text="blocked-line")).to_have_count(1)


@pytest.mark.requirement("P3")
async def test_a_delivery_shows_what_its_handler_returned_or_raised(
    tab: Tab, dashboard: Dashboard
) -> None:
    async with dashboard.home.app() as app:
        (done, *_), (broken, *_) = await app.list(tag="done"), await app.list(tag="broken")
    await tab.open(f"deliveries/{done.id}")
    card = tab.page.locator("section.card", has=tab.role("heading", "Result"))
    await expect(card).to_contain_text('"receipt": 7')
    await tab.open(f"deliveries/{broken.id}")
    await expect(tab.role("heading", "Payload")).to_be_visible()
    await expect(tab.role("heading", "Result")).to_have_count(0)
    await tab.page.get_by_text("Traceback of ValueError").click()
    await tab.see_in_main("ValueError: no {'number':")
