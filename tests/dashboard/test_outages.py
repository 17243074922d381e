"""Outages are shown below the workers, with a way to the deliveries that were late."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.dashboard.conftest import Dashboard
from tests.dashboard.tab import Tab
from tests.surfaces.monitoring.test_outages import away_for_a_day
from tests.surfaces.processes import Home

pytestmark = [pytest.mark.requirement("L7", "S5"), pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def dashboard(home: Home) -> AsyncIterator[Dashboard]:
    await away_for_a_day(home)
    with home.serving() as server:
        yield Dashboard(home, server)


async def test_an_outage_leads_to_its_deliveries(tab: Tab, dashboard: Dashboard) -> None:
    await tab.open("workers")
    outages = tab.role("region", "Outages")
    await expect(outages.get_by_role("row")).to_have_count(2)
    await expect(outages).to_contain_text("18 h")
    await outages.get_by_role("link", name="Late deliveries").click()
    await expect(tab.page.get_by_role("row")).to_have_count(1 + 3)
    await expect(tab.page.get_by_role("searchbox")).to_have_value("late_over:5m")
