"""The page of the birthday service: people, their next greetings and a calendar of the year."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from tests.dashboard.conftest import Dashboard, opened
from tests.dashboard.tab import Tab
from tests.surfaces.processes import Home

pytestmark = [pytest.mark.requirement("S5"), pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def service(home: Home) -> AsyncIterator[Dashboard]:
    """`duly serve` with the birthday service."""
    with home.serving("duly_birthday:app") as server:
        yield Dashboard(home, server)


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, service: Dashboard) -> AsyncIterator[Tab]:
    """A tab of that server."""
    async with opened(browser, service.url) as found:
        yield found


async def register(tab: Tab, first: str, born: str, zone: str = "Europe/Oslo") -> None:
    """Register a person over HTTP."""
    person = {"firstName": first, "lastName": "Lee", "dateOfBirth": born, "timezone": zone}
    answer = await tab.page.request.post(f"{tab.url}/user", data=person)
    assert answer.status == 201


def row(tab: Tab, card: str, text: str) -> Locator:
    """The row of a card that has the text."""
    return tab.role("region", card).get_by_role("row").filter(has_text=text)


async def test_the_menu_has_birthdays_only_where_the_service_runs(
    browser: Browser, page: Tab, home: Home
) -> None:
    await page.open()
    menu = page.page.get_by_role("navigation", name="Pages")
    await expect(menu.get_by_role("link", name="Birthdays")).to_be_visible()
    with home.serving("--database", f"sqlite:///{home.folder}/without.db") as other:
        async with opened(browser, other.url) as tab:
            await tab.open("birthdays")
            await tab.see("duly serve duly_birthday:app")
            menu = tab.page.get_by_role("navigation", name="Pages")
            await expect(menu.get_by_role("link", name="Settings")).to_be_visible()
            await expect(menu.get_by_role("link", name="Birthdays")).to_have_count(0)


async def test_g_b_opens_the_page_which_teaches_the_first_step(page: Tab) -> None:
    nobody = {"items": [], "next": None}
    await page.page.route("**/user?*", lambda route: route.fulfill(json=nobody))
    await page.open("workers")
    await expect(page.role("link", "Birthdays")).to_be_visible()
    await page.press("g", "b")
    await expect(page.page.get_by_role("heading", name="Birthdays", level=1)).to_be_visible()
    await page.see("python -m duly_birthday import people.csv")


async def test_nobody_is_counted_before_an_answer(page: Tab) -> None:
    await page.page.route("**/user?*", lambda _: None)
    await page.page.goto(f"{page.url}/#/birthdays")
    await expect(page.page.get_by_role("heading", name="Birthdays", level=1)).to_be_visible()
    assert "0 people" not in await page.page.get_by_role("main").inner_text()


async def test_a_person_is_added_and_has_a_greeting(page: Tab) -> None:
    page.expected.append("Failed to load resource")  # the date that is refused
    await page.open("birthdays")
    await page.click("Add a person")
    form = page.dialog
    await form.get_by_label("First name").fill("Ann")
    await form.get_by_label("Last name").fill("Lee")
    await form.get_by_label("Date of birth").fill("soon")
    await form.get_by_label("Time zone").fill("Asia/Kathmandu")
    await form.get_by_role("button", name="Add").click()
    await expect(form.get_by_role("alert")).to_contain_text("is not a date")
    await form.get_by_label("Date of birth").fill("1990-11-15")
    await page.confirm("Add")
    await expect(row(page, "People", "Ann Lee")).to_contain_text("1990-11-15")
    await expect(row(page, "Next greetings", "Ann Lee")).to_contain_text("11-15 09:00")
    await row(page, "Next greetings", "Ann Lee").get_by_role("link").click()
    await page.see_in_main("birthday:")


async def test_the_calendar_is_used_with_keys_only(page: Tab) -> None:
    await register(page, "Jan", "1980-01-15")
    await register(page, "Joy", "1981-01-15")
    await register(page, "Mark", "1982-03-01")
    await page.open("birthdays")
    await expect(page.button("15 January: Jan Lee, Joy Lee")).to_be_visible()
    calendar = page.role("region", "Calendar")
    await calendar.locator('[tabindex="0"]').focus()
    await page.press("Home", *["PageUp"] * 12, *["ArrowRight"] * 7, "ArrowDown", "Enter")
    await expect(page.button("15 January: Jan Lee, Joy Lee")).to_be_focused()
    await expect(calendar.get_by_role("status")).to_have_text("15 January: Jan Lee, Joy Lee")
    people = page.role("region", "People")
    await expect(people).to_contain_text("2 people")
    await expect(people).not_to_contain_text("Mark")
    await page.press("Enter")
    await expect(people).to_contain_text("Mark")


async def test_people_are_found_edited_and_removed(page: Tab) -> None:
    await register(page, "Zoe", "1985-05-05")
    await register(page, "Kay", "1985-05-06")
    await page.open("birthdays")
    await page.role("searchbox", "Search people").fill("zo")
    await expect(page.role("region", "People")).to_contain_text("1 person")
    await page.click("Edit Zoe Lee")
    await page.dialog.get_by_label("Date of birth").fill("1985-06-07")
    await page.confirm("Save")
    await expect(row(page, "People", "Zoe Lee")).to_contain_text("1985-06-07")
    await expect(page.button("7 June: Zoe Lee")).to_be_visible()
    await page.click("Remove Zoe Lee")
    await page.confirm("Remove")
    await expect(page.role("region", "People")).to_contain_text("0 people")
    await expect(page.button("7 June: nobody")).to_be_visible()


@pytest.mark.parametrize(
    ("feb29", "year", "day"),
    [
        ("feb28", 2027, "02-28"),
        ("mar1", 2027, "03-01"),
        ("skip", 2027, None),
        ("mar1", 2028, "02-29"),
    ],
)
async def test_a_leap_day_is_shown_when_it_is_greeted(
    page: Tab, feb29: str, year: int, day: str | None
) -> None:
    await page.open()
    found = await page.page.evaluate(
        """async ([feb29, year]) => {
          const { celebratedOn } = await import("/dashboard/pages/birthday_dates.js");
          return celebratedOn({ dateOfBirth: "2000-02-29", feb29 }, year);
        }""",
        [feb29, year],
    )
    assert found == day


async def test_a_reader_sees_no_operations(page: Tab) -> None:
    await page.page.route(
        "**/v1/session",
        lambda route: route.fulfill(
            json={"actor": "x", "namespace": "default", "scope": "read", "session": False}
        ),
    )
    await register(page, "Only", "1970-07-07")
    await page.open("birthdays")
    await expect(row(page, "People", "Only Lee")).to_be_visible()
    await expect(page.button("Add a person")).to_have_count(0)
    await expect(page.button("Remove Only Lee")).to_have_count(0)


async def test_the_calendar_fits_a_phone(browser: Browser, service: Dashboard) -> None:
    async with opened(browser, service.url, viewport={"width": 400, "height": 800}) as tab:
        await tab.open("birthdays")
        await expect(tab.page.get_by_role("table", name="December")).to_be_attached()
        assert await tab.page.evaluate("document.documentElement.scrollWidth") <= 400
