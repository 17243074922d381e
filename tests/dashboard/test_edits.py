"""An edit changes what was changed in the form, and keeps what a page cannot show."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs
from playwright.async_api import Route, expect

import duly
from duly import App
from tests.dashboard.conftest import Dashboard
from tests.dashboard.tab import Tab
from tests.surfaces.sample_data import HERE, HOOK

pytestmark = [pytest.mark.requirement("U2"), pytest.mark.asyncio(loop_scope="session")]
BIG = 12345678901234567890
OPTIONS: dict[str, Any] = {
    "catch_up": "all",
    "window": 3600,
    "cap": 7,
    "overlap": "queue",
    "start": datetime(2096, 1, 1, tzinfo=UTC),
    "end": datetime(2097, 1, 1, tzinfo=UTC),
    "max_runs": 9,
    "jitter": 60,
    "expires_after": 600,
    "retry": duly.delays(1, 2),
    "priority": 8,
    "tags": ["red"],
}
RULES = {
    "cron": duly.cron("30 2 * * *", tz="Europe/Oslo", dst_gap="skip"),
    "every": duly.every("90m", anchor=datetime(2096, 1, 1, 9, tzinfo=UTC)),
    "yearly": duly.yearly(2, 29, "08:15", tz="Asia/Tokyo", feb29="mar1"),
}
WEBHOOK = duly.webhook(
    f"{HOOK}?token=secret", method="PUT", headers={"authorization": "Bearer secret"}, timeout=7
)


def opened(dashboard: Dashboard) -> App:
    """An App that may deliver to this machine, as the dashboard's server may."""
    app = App(dashboard.home.database, environment={"DULY_EGRESS_ALLOW": HERE})
    app.expect("works")
    return app


async def declared(app: App, name: str, rule: str) -> tuple[Any, Any]:
    """A schedule with every option, as it is stored."""
    await app.schedule(name, RULES[rule], WEBHOOK, {"big": BIG}, **OPTIONS)
    return await stored(app, name)


async def stored(app: App, name: str) -> tuple[Any, Any]:
    found = await app.store.schedules.get(name)
    return found.timing, found.contents


@pytest.mark.parametrize("rule", RULES)
async def test_saving_a_schedule_without_a_change_changes_nothing(
    tab: Tab, dashboard: Dashboard, rule: str
) -> None:
    name = f"kept-{rule}"
    async with opened(dashboard) as app:
        before = await declared(app, name, rule)
        version = (await app.schedules.get(name)).version
        await tab.open(f"schedules/{name}")
        await tab.click("Edit")
        await tab.confirm("Save")
        assert await stored(app, name) == before
        assert (await app.schedules.get(name)).version == version


@pytest.mark.parametrize("height", [400, 720, 1600])
async def test_a_preview_that_arrives_late_does_not_move_the_buttons(
    tab: Tab, dashboard: Dashboard, height: int
) -> None:
    """A click is lost if its button moves between pressing and releasing."""
    arrived = asyncio.Event()

    async def hold_back(route: Route) -> None:
        await arrived.wait()
        await route.continue_()

    name = f"late-{height}"
    await tab.page.set_viewport_size({"width": 1280, "height": height})
    await tab.page.route("**/schedules/explain", hold_back)
    async with opened(dashboard) as app:
        await declared(app, name, "yearly")
        await tab.open(f"schedules/{name}")
        await tab.click("Edit")
        save = tab.dialog.get_by_role("button", name="Save")
        before = await save.bounding_box()
        arrived.set()
        await expect(tab.dialog.get_by_label("Preview")).to_contain_text("Asia/Tokyo")
        assert await save.bounding_box() == before
        await tab.confirm("Save")


async def test_an_edit_of_a_schedule_keeps_the_rest(tab: Tab, dashboard: Dashboard) -> None:
    async with opened(dashboard) as app:
        timing, contents = await declared(app, "partly", "cron")
        await tab.open("schedules/partly")
        await expect(tab.page.get_by_label("Payload", exact=True)).to_contain_text(str(BIG))
        await tab.click("Edit")
        await tab.dialog.get_by_label("Rule", exact=True).fill("45 2 * * *")
        await tab.dialog.get_by_label("Payload").fill(f'{{"big": {BIG + 1}}}')
        await tab.confirm("Save")
        found = await app.schedules.get("partly")
        assert (found.rule.cron, found.rule.tz, found.rule.dst_gap) == (
            *("45 2 * * *", "Europe/Oslo"),
            "skip",
        )
        assert found.payload == {"big": BIG + 1}
        after_timing, after = await stored(app, "partly")
        assert structs.replace(after_timing, rule=timing.rule) == timing
        assert structs.replace(after, payload=contents.payload) == contents


async def test_adding_a_schedule_does_not_replace_another(tab: Tab, dashboard: Dashboard) -> None:
    tab.expected.append("Failed to load resource")  # the refusal
    async with opened(dashboard) as app:
        before = await declared(app, "taken", "cron")
        await tab.open("schedules")
        await tab.click("Add a schedule")
        await tab.dialog.get_by_label("Name").fill("taken")
        await tab.dialog.get_by_label("Target").fill("works")
        await tab.dialog.get_by_role("button", name="Add").click()
        await expect(tab.dialog.get_by_role("alert")).to_contain_text("taken")
        assert await stored(app, "taken") == before


async def test_saving_an_endpoint_without_a_change_changes_nothing(
    tab: Tab, dashboard: Dashboard
) -> None:
    async with opened(dashboard) as app:
        await app.endpoints.add(
            "kept", f"{HOOK}?token=secret", rate=5.5, in_flight=3, description="d", timeout=9
        )
        before = (await app.store.endpoints.get("kept")).details
        await tab.open("endpoints/kept")
        await tab.click("Edit")
        await tab.confirm("Save")
        assert (await app.store.endpoints.get("kept")).details == before


async def test_a_delivery_is_not_repeated_to_an_address_that_is_hidden(
    tab: Tab, dashboard: Dashboard
) -> None:
    async with opened(dashboard) as app:
        places = {
            name: duly.webhook(url) for name, url in (("hidden", f"{HOOK}?t=s"), ("open", HOOK))
        }
        ids = {name: (await app.deliver(to, after=60)).id for name, to in places.items()}
        for id in ids.values():
            await app.cancel(id)
    await tab.open(f"deliveries/{ids['hidden']}")
    await tab.see("Payload")
    await expect(tab.button("Deliver again")).to_have_count(0)
    await tab.open(f"deliveries/{ids['open']}")
    await tab.click("Deliver again")
    await expect(tab.dialog).to_contain_text("without the headers of this one")
