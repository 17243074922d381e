"""Every page is accessible, in light and in dark, as far as axe-core can tell."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.dashboard.conftest import Dashboard, opened
from tests.dashboard.tab import Tab
from tests.dashboard.test_pages import PAGES
from tests.support.axe import find_axe
from tests.surfaces.processes import Home

pytestmark = [pytest.mark.requirement("S5", "U4"), pytest.mark.asyncio(loop_scope="session")]

FORMS = [("dead_letters", "Give up"), ("dead_letters?view=recovery", "Add a policy")]
FIND = """
async () => {
  const { violations } = await axe.run({ resultTypes: ["violations"] });
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, html }) => `${id}: ${help}: ${target} ${html.slice(0, 200)}`));
}
"""


async def violations(tab: Tab) -> list[str]:
    """What is wrong with the page as it is now."""
    found: list[str] = await tab.page.evaluate(FIND)
    return found


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_page_has_a_violation(browser: Browser, dashboard: Dashboard, scheme: str) -> None:
    found = {}
    async with opened(browser, dashboard.url, color_scheme=scheme) as tab:
        await tab.page.add_init_script(find_axe())
        for place, (_, texts) in PAGES.items():
            await tab.open(place)
            await tab.see_in_main(texts[0])
            found[place] = await violations(tab)
    problems = [f"{place}: {each}" for place, many in found.items() for each in many]
    assert not problems, "\n".join(problems)


async def test_no_dialog_has_a_violation(browser: Browser, dashboard: Dashboard) -> None:
    async with opened(browser, dashboard.url) as tab:
        await tab.page.add_init_script(find_axe())
        await tab.open("dead_letters")
        await tab.page.get_by_role("main").get_by_role("button", name="Retry").first.click()
        await expect(tab.dialog).to_be_visible()
        assert await violations(tab) == []
        for place, button in FORMS:
            await tab.press("Escape")
            await tab.open(place)
            await tab.page.get_by_role("main").get_by_role("button", name=button).first.click()
            await expect(tab.dialog).to_be_visible()
            assert await violations(tab) == []
        await tab.press("Escape", "?")
        await expect(tab.dialog).to_be_visible()
        assert await violations(tab) == []


async def test_the_login_has_no_violation(browser: Browser, tmp_path: Path) -> None:
    home = Home(tmp_path, f"sqlite:///{tmp_path}/duly.db")
    home.ok("keys", "create", "me", "--scope", "admin")
    with home.serving(environ={"DULY_LOOPBACK_OPEN": "false"}) as server:
        async with opened(browser, server.url) as tab:
            tab.expected.append("Failed to load resource")  # the 401 before the login
            await tab.page.add_init_script(find_axe())
            await tab.page.goto(tab.url)
            await expect(tab.button("Log in")).to_be_visible()
            assert await violations(tab) == []
