"""Batches are watched, closed and cancelled on their page."""

import pytest
from playwright.async_api import expect

from tests.dashboard.conftest import Dashboard
from tests.dashboard.tab import Tab

pytestmark = [
    pytest.mark.requirement("P8", "S5"),
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_a_batch_shows_its_progress_and_is_closed_and_cancelled(
    tab: Tab, dashboard: Dashboard
) -> None:
    async with dashboard.home.app() as app:
        app.expect("works", "nobody")
        batch = await app.batches.open(("works", {}), name="nightly")
        given = await app.deliver_many(
            [{"target": "nobody", "payload": each, "after": 86_400} for each in range(4)],
            batch=batch.id,
        )
        await app.cancel(given[0].id)
    await tab.open("batches?state=open")
    row = tab.page.get_by_role("row").filter(has_text="nightly")
    meter = row.get_by_label("Progress of nightly")
    await expect(meter).to_have_attribute("max", "4")
    await expect(meter).to_have_attribute("value", "1")
    await row.get_by_role("button", name="Close").click()
    await tab.confirm("Close it")
    await expect(row).to_have_count(0)
    await tab.open("batches?state=closed")
    await row.get_by_role("button", name="Cancel").click()
    await tab.confirm("Cancel it")
    await tab.open("batches?state=cancelled")
    await expect(meter).to_have_attribute("value", "4")
    await row.get_by_role("link", name="nightly").click()
    await expect(tab.page.get_by_role("heading", name="Deliveries")).to_be_visible()
    await expect(tab.page.get_by_role("row").filter(has_text="nobody")).to_have_count(4)
    async with dashboard.home.app() as app:
        found = await app.batches.get(batch.id)
    assert (found.state, found.cancelled) == ("cancelled", 4)
