"""Operations on many: counted first, done in steps, and found again from other pages."""

import asyncio
import json

import pytest
from playwright.async_api import Locator, Route, expect

import duly
from tests.dashboard.conftest import Dashboard
from tests.dashboard.tab import Tab
from tests.dashboard.test_operations import dead_letter, ended

pytestmark = [
    pytest.mark.requirement("S5"),
    pytest.mark.requirement("F4"),
    pytest.mark.asyncio(loop_scope="session"),
]


async def add_schedules(dashboard: Dashboard, *names: str) -> None:
    """Schedules that do not run by themselves during the test."""
    async with dashboard.home.app() as app:
        app.expect("works")
        for name in names:
            await app.schedule(name, duly.cron("0 0 1 1 *"), "works")


async def paused(dashboard: Dashboard, *names: str) -> list[bool]:
    """Whether each of the schedules is paused."""
    async with dashboard.home.app() as app:
        return [(await app.schedules.get(name)).paused_at is not None for name in names]


def running(tab: Tab) -> Locator:
    """The operations that the frame lists."""
    return tab.page.get_by_role("list", name="Operations that run").get_by_role("listitem")


class Steps:
    """Answers the calls of an operation: 3 of 10, then as the test says."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.calls = 0
        self.is_answered = asyncio.Event()
        self.status = 200

    async def answer(self, route: Route) -> None:
        """Answer the first call at once, the others when the test allows it."""
        is_dry = "dry_run" in (route.request.post_data or "")
        if not is_dry:
            self.calls += 1
        if self.calls > 1:
            await self.is_answered.wait()
        found = {"matching": 10 if is_dry or self.calls == 1 else 7, "moved": 0 if is_dry else 3}
        rest = {"until": "2026-01-01T00:00:00Z", "finished": False}
        status = self.status if self.calls > 1 else 200
        await route.fulfill(
            status=status, body=json.dumps(found | rest), content_type="application/json"
        )

    async def begin(self) -> None:
        """Start to pause all schedules, and hide the dialog after the first step."""
        await self.tab.page.route("**/v1/schedules/pause", self.answer)
        await self.tab.open("schedules")
        await self.tab.click("Pause all…")
        await expect(self.tab.dialog.get_by_text("10 match.")).to_be_visible()
        await self.tab.dialog.get_by_role("button", name="Pause").click()
        await expect(self.tab.dialog.get_by_text("3 of 10")).to_be_visible()
        await self.tab.confirm("Hide")


async def test_selected_schedules_are_paused_and_resumed(tab: Tab, dashboard: Dashboard) -> None:
    names = ("many-1", "many-2", "many-3")
    await add_schedules(dashboard, *names)
    await tab.open("schedules?q=many-")
    for verb, expected in (("Pause", [True, True, False]), ("Resume", [False] * 3)):
        for name in names[:2]:
            await tab.role("checkbox", f"Select {name}").check()
        await tab.page.get_by_role("toolbar").get_by_role("button", name=verb).click()
        await expect(tab.dialog.get_by_text("2 match.")).to_be_visible()
        await tab.confirm(verb)
        await tab.see_message(f"{verb}: 2 schedules")
        assert await paused(dashboard, *names) == expected


async def test_all_schedules_that_match_are_paused(tab: Tab, dashboard: Dashboard) -> None:
    await add_schedules(dashboard, "matching-1", "matching-2", "other")
    await tab.open("schedules?q=matching")
    await tab.click("Pause all that match…")
    await expect(tab.dialog.get_by_text("2 match.")).to_be_visible()
    await tab.dialog.get_by_label("Why").fill("the holidays")
    await tab.confirm("Pause")
    assert await paused(dashboard, "matching-1", "matching-2", "other") == [True, True, False]
    async with dashboard.home.app() as app:
        assert (await app.schedules.get("matching-1")).pause_reason == "the holidays"


async def test_an_operation_goes_on_while_other_pages_are_shown(
    tab: Tab, dashboard: Dashboard
) -> None:
    letters = [await dead_letter(dashboard, "slow", tags=["slow"]) for _ in range(4)]
    await tab.open("dead_letters?view=list&q=tag:slow")
    await tab.role("checkbox", "Select all that are shown").check()
    await tab.click("Retry")
    await tab.dialog.get_by_label("At most this many per second").fill("1")
    await tab.dialog.get_by_role("button", name="Retry").click()
    await tab.confirm("Hide")
    await tab.press("g", "s")
    await expect(running(tab)).to_contain_text("Retrying dead letters")
    await tab.see_message("Retry: 4 dead letters")
    await expect(running(tab)).to_have_count(0)
    again = [await ended(dashboard, each.id) for each in letters]
    assert all(new.dead_at != old.dead_at for new, old in zip(again, letters, strict=True))


async def test_the_frame_leads_back_to_an_operation_and_stops_it(tab: Tab) -> None:
    steps = Steps(tab)
    await steps.begin()
    await tab.press("g", "d")
    await expect(running(tab)).to_contain_text("Pausing schedules: 3 of 10")
    await running(tab).get_by_role("button", name="Pausing schedules").click()
    await expect(tab.dialog).to_contain_text("3 of 10")
    await tab.dialog.get_by_role("button", name="Stop").click()
    steps.is_answered.set()
    await expect(tab.dialog).to_have_count(0)
    await expect(running(tab)).to_have_count(0)
    await tab.see_message("Pause: 6 schedules")
    assert steps.calls == 2


async def test_an_operation_with_a_problem_waits_until_it_is_told_to_go_on(tab: Tab) -> None:
    tab.expected.append("Failed to load resource")
    steps = Steps(tab)
    await steps.begin()
    steps.status = 500
    steps.is_answered.set()
    await expect(running(tab)).to_contain_text("The server answered 500.")
    steps.status = 200
    steps.is_answered.clear()
    await running(tab).get_by_role("button", name="Go on").click()
    await expect(running(tab)).to_contain_text("3 of 10")
    await running(tab).get_by_role("button", name="Stop").click()
    steps.is_answered.set()
    await tab.see_message("Pause: 6 schedules")
