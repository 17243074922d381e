"""Every operation of the dashboard changes the store."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import expect

import duly
from duly import DeliveryRecord
from tests.dashboard.conftest import Dashboard
from tests.dashboard.sample_store import DAY, HOOK
from tests.dashboard.tab import Tab
from tests.support.commands import DEADLINE_SECONDS

pytestmark = [pytest.mark.requirement("S5", "U2"), pytest.mark.asyncio(loop_scope="session")]


async def ended(dashboard: Dashboard, id: str) -> DeliveryRecord:
    """The delivery, once the server has carried it out."""
    async with dashboard.home.app() as app, asyncio.timeout(DEADLINE_SECONDS):
        while (found := await app.get(id)).state in ("pending", "processing"):
            pass
        return found


async def dead_letter(dashboard: Dashboard, payload: object, **options: Any) -> DeliveryRecord:
    """A dead letter that the server has made."""
    return await ended(dashboard, await dashboard.home.deliver("fails", payload, **options))


async def test_a_pending_delivery_is_made_due(tab: Tab, dashboard: Dashboard) -> None:
    id = await dashboard.home.deliver("works", 1, after=DAY)
    await tab.open(f"deliveries/{id}")
    await tab.click("Retry now")
    await tab.see_message("It is due now")
    await expect(tab.page.get_by_text("completed", exact=True).first).to_be_visible()
    assert (await dashboard.home.find(id)).state == "completed"


async def test_a_pending_delivery_is_cancelled(tab: Tab, dashboard: Dashboard) -> None:
    id = await dashboard.home.deliver("works", 1, after=DAY)
    await tab.open(f"deliveries/{id}")
    await tab.click("Cancel")
    await tab.confirm("Cancel it")
    assert (await dashboard.home.find(id)).state == "cancelled"


@pytest.mark.requirement("P4", "P5")
async def test_a_running_delivery_shows_its_progress_and_is_cancelled(
    tab: Tab, dashboard: Dashboard
) -> None:
    id = await dashboard.home.deliver("reports", tags=["reports"])
    await tab.open(f"deliveries/{id}")
    bar = tab.page.get_by_role("main").get_by_role("status")
    await expect(bar).to_contain_text("40 %, page 4 of 10")
    await expect(bar.get_by_role("progressbar")).to_have_attribute("aria-label", "Progress")
    await tab.open("deliveries?state=processing&q=tag:reports")
    await tab.see_in_main("40 %")
    await tab.open(f"deliveries/{id}")
    await tab.click("Cancel")
    await tab.confirm("Cancel it")
    await tab.see_message("Asked to cancel")
    assert (await ended(dashboard, id)).state == "cancelled"
    await expect(tab.page.get_by_text("cancelled", exact=True).first).to_be_visible()


@pytest.mark.requirement("P5")
async def test_a_delivery_that_does_not_obey_says_since_when_it_was_asked(
    tab: Tab, dashboard: Dashboard
) -> None:
    id = await dashboard.home.deliver("ignores")
    await tab.open(f"deliveries/{id}")
    await tab.click("Cancel")
    await tab.confirm("Cancel it")
    await tab.see_in_main("It was asked to cancel")


@pytest.mark.requirement("P5")
async def test_all_that_run_and_match_are_asked_to_cancel(tab: Tab, dashboard: Dashboard) -> None:
    id = await dashboard.home.deliver("reports", tags=["many"])
    await tab.open("deliveries?state=processing&q=tag:many")
    await tab.click("Cancel all that match…")
    await tab.confirm("Cancel them")
    assert (await ended(dashboard, id)).state == "cancelled"


@pytest.mark.requirement("P5")
async def test_the_running_head_of_a_stream_is_cancelled(tab: Tab, dashboard: Dashboard) -> None:
    id = await dashboard.home.deliver("reports", stream="running-line")
    async with dashboard.home.app() as app, asyncio.timeout(DEADLINE_SECONDS):
        while (await app.get(id)).state != "processing":
            pass
    await tab.open("streams/running-line")
    await tab.click("Cancel the head")
    await tab.confirm("Cancel the head")
    assert (await ended(dashboard, id)).state == "cancelled"


async def test_a_dead_letter_is_edited_and_retried(tab: Tab, dashboard: Dashboard) -> None:
    id = (await dead_letter(dashboard, "old")).id
    await tab.open(f"deliveries/{id}")
    await tab.click("Edit and retry")
    payload = tab.dialog.get_by_label("Payload")
    await payload.fill("{nonsense")
    await tab.dialog.get_by_role("button", name="Retry with this payload").click()
    await expect(tab.dialog.get_by_role("alert")).to_contain_text("This is not JSON")
    await payload.fill('{"exact": 12345678901234567890}')
    await tab.confirm("Retry with this payload")
    async with dashboard.home.app() as app:
        assert (await app.get(id)).payload == {"exact": 12345678901234567890}


async def test_a_completed_delivery_is_delivered_again(tab: Tab, dashboard: Dashboard) -> None:
    first = await ended(dashboard, await dashboard.home.deliver("works", {"once": "more"}))
    await tab.open(f"deliveries/{first.id}")
    await tab.click("Deliver again")
    await tab.confirm("Deliver")
    await expect(tab.page).not_to_have_url(f"{tab.url}/#/deliveries/{first.id}")
    again = tab.page.url.rpartition("/")[2]
    assert (await dashboard.home.find(again)).target == "works"


async def test_selected_deliveries_are_cancelled(tab: Tab, dashboard: Dashboard) -> None:
    ids = [await dashboard.home.deliver("works", 1, after=DAY, tags=["chosen"]) for _ in range(3)]
    await tab.open("deliveries?q=tag:chosen")
    for id in ids[:2]:
        await tab.role("checkbox", f"Select delivery {id}").check()
    await tab.see("2 deliveries")
    await tab.click("Cancel")
    await tab.confirm("Cancel them")
    states = [(await dashboard.home.find(id)).state for id in ids]
    assert states == ["cancelled", "cancelled", "pending"]


async def test_all_deliveries_that_match_are_cancelled(tab: Tab, dashboard: Dashboard) -> None:
    ids = [await dashboard.home.deliver("works", 1, after=DAY, tags=["all"]) for _ in range(3)]
    await tab.open("deliveries?state=pending&q=tag:all")
    await tab.click("Cancel all that match…")
    await expect(tab.dialog.get_by_text("3 match.")).to_be_visible()
    await tab.confirm("Cancel them")
    await tab.see_message("3 deliveries")
    assert {(await dashboard.home.find(id)).state for id in ids} == {"cancelled"}


async def test_dead_letters_are_retried_by_cause(tab: Tab, dashboard: Dashboard) -> None:
    letter = await dead_letter(dashboard, "a cause of its own")
    await tab.open(f"dead_letters?q=fingerprint:{letter.fingerprint}")
    await tab.button("Retry").first.click()
    await expect(tab.dialog.get_by_text("match.")).to_be_visible()
    await tab.confirm("Retry")
    again = await ended(dashboard, letter.id)
    assert (again.state, again.dead_at != letter.dead_at) == ("dead", True)


async def test_selected_dead_letters_are_discarded(tab: Tab, dashboard: Dashboard) -> None:
    id = (await dead_letter(dashboard, "unwanted", tags=["unwanted"])).id
    await tab.open("dead_letters?view=list&q=tag:unwanted")
    await tab.role("checkbox", f"Select {id}").check()
    await tab.click("Discard")
    await tab.dialog.get_by_label("Why").fill("never mind")
    await tab.confirm("Discard")
    assert (await dashboard.home.find(id)).state == "cancelled"


async def test_a_schedule_is_added_with_a_preview(tab: Tab, dashboard: Dashboard) -> None:
    tab.expected.append("Failed to load resource")  # the preview of a rule that is wrong
    await tab.open("schedules")
    await tab.click("Add a schedule")
    form = tab.dialog
    await form.get_by_label("Name").fill("from-the-page")
    await form.get_by_label("Rule", exact=True).fill("nonsense")
    await expect(form.get_by_role("region", name="Preview")).to_contain_text("not understood")
    await form.get_by_label("Rule", exact=True).fill("every day at 2:30am")
    await expect(form.get_by_role("region", name="Preview")).to_contain_text("30 2 * * *")
    await form.get_by_label("Kind").select_option("any_of")
    await form.get_by_label("Rule", exact=True).fill("30 2 * * *; @every 5h")
    await expect(form.get_by_role("region", name="Preview")).to_contain_text("or every 5 hours")
    await form.get_by_label("Kind").select_option("cron")
    await form.get_by_label("Rule", exact=True).fill("30 2 * * *")
    await form.get_by_label("Time zone").fill("Europe/Oslo")
    await expect(form.get_by_role("region", name="Preview")).to_contain_text("02:30")
    await form.get_by_label("Target").fill("works")
    await form.get_by_label("Payload").fill('{"from": "a page"}')
    await tab.confirm("Add")
    await expect(tab.role("heading", "from-the-page")).to_be_visible()
    async with dashboard.home.app() as app:
        assert (await app.schedules.get("from-the-page")).payload == {"from": "a page"}


async def test_a_schedule_is_edited(tab: Tab, dashboard: Dashboard) -> None:
    await schedule(dashboard, "edited")
    await tab.open("schedules/edited")
    await tab.click("Edit")
    await tab.dialog.get_by_label("Rule", exact=True).fill("15 6 * * *")
    await tab.confirm("Save")
    await tab.see("06:15")
    async with dashboard.home.app() as app:
        found = await app.schedules.get("edited")
    assert (found.rule.cron, found.payload) == ("15 6 * * *", {"kept": True})


async def schedule(dashboard: Dashboard, name: str) -> None:
    """A schedule that does not run by itself during the test."""
    async with dashboard.home.app() as app:
        app.expect("works")
        await app.schedule(name, duly.cron("0 0 1 1 *"), "works", {"kept": True})


async def test_a_schedule_is_paused_resumed_and_triggered(tab: Tab, dashboard: Dashboard) -> None:
    await schedule(dashboard, "moved")
    await tab.open("schedules/moved")
    main = tab.page.get_by_role("main")
    await main.get_by_role("button", name="Pause").click()
    await tab.see_message("Paused")
    async with dashboard.home.app() as app:
        assert (await app.schedules.get("moved")).paused_at is not None
        await main.get_by_role("button", name="Resume").click()
        await tab.see_message("Resumed")
        assert (await app.schedules.get("moved")).paused_at is None
        await tab.click("Trigger now")
        await tab.see_message("One delivery was made now")
        assert len(await app.list(schedule="moved", target="works")) >= 1


async def test_a_schedule_is_backfilled_and_removed(tab: Tab, dashboard: Dashboard) -> None:
    await schedule(dashboard, "past")
    await tab.open("schedules/past")
    await tab.click("Backfill…")
    await tab.dialog.get_by_label("From (UTC)").fill("2020-01-01T00:00")
    await tab.dialog.get_by_label("To (UTC)").fill("2022-06-01T00:00")
    await tab.click("Count them")
    await tab.see("3 moments")
    await tab.confirm("Make them")
    async with dashboard.home.app() as app:
        assert len(await app.list(schedule="past")) >= 3
        await tab.click("Remove")
        await tab.confirm("Remove it")
        await expect(tab.role("heading", "Schedules")).to_be_visible()
        with pytest.raises(duly.NotFound):
            await app.schedules.get("past")


async def test_a_stream_is_paused_and_its_policy_changed(tab: Tab, dashboard: Dashboard) -> None:
    await dashboard.home.deliver("works", 1, stream="line-1", after=DAY)
    await tab.open("streams/line-1")
    main = tab.page.get_by_role("main")
    await main.get_by_role("button", name="Pause").click()
    await tab.see_message("The stream is paused")
    await main.get_by_label("On failure").select_option("release")
    await tab.see_message("Changed")
    async with dashboard.home.app() as app:
        found = await app.streams.get("line-1")
        assert (found.paused_at is not None, found.on_failure) == (True, "release")
        await main.get_by_role("button", name="Resume").click()
        await tab.see_message("The stream goes on")
        assert (await app.streams.get("line-1")).paused_at is None


async def test_the_dead_head_of_a_stream_is_released(tab: Tab, dashboard: Dashboard) -> None:
    await dead_letter(dashboard, 1, stream="line-2", on_failure="block")
    behind = await dashboard.home.deliver("works", 2, stream="line-2")
    await tab.open("streams/line-2")
    await tab.see("Head")
    await tab.click("Release")
    await tab.dialog.get_by_role("button", name="Release the head").click()
    await expect(tab.dialog).to_have_count(0)
    assert (await ended(dashboard, behind)).state == "completed"


@pytest.mark.requirement("L4")
async def test_selected_followers_of_a_dead_head_are_released(
    tab: Tab, dashboard: Dashboard
) -> None:
    head = await dead_letter(dashboard, 1, stream="line-3", on_failure="block")
    ids = [await dashboard.home.deliver("works", n, stream="line-3") for n in range(4)]
    await tab.open("streams/line-3")
    await tab.page.get_by_label(f"Select {ids[1]}").check()
    await tab.click("Release these")
    await tab.confirm("Release")
    assert (await ended(dashboard, ids[1])).state == "completed"
    await tab.page.get_by_label(f"Select {ids[2]}").check()
    await tab.click("Keep these, release the others")
    await tab.confirm("Release")
    for id in (ids[0], ids[3]):
        assert (await ended(dashboard, id)).state == "completed"
    async with dashboard.home.app() as app:
        found = await app.streams.get("line-3")
        assert (found.head and found.head.id, found.waiting) == (head.id, 1)
        assert (await app.get(ids[2])).state == "pending"


@pytest.mark.requirement("L4")
async def test_the_block_of_a_stream_is_limited(tab: Tab, dashboard: Dashboard) -> None:
    await dead_letter(dashboard, 1, stream="line-4", on_failure="block")
    await tab.open("streams/line-4")
    limit = tab.page.get_by_label("Blocks for, in minutes")
    await limit.fill("90")
    await limit.press("Enter")
    await tab.see_message("Changed")
    async with dashboard.home.app() as app:
        found = await app.streams.get("line-4")
        assert (found.block_for, found.blocked_until is not None) == (5400, True)


async def test_an_endpoint_is_added_edited_and_removed(tab: Tab, dashboard: Dashboard) -> None:
    await tab.open("endpoints")
    await tab.click("Add an endpoint")
    await tab.dialog.get_by_label("Name").fill("shop")
    await tab.dialog.get_by_label("Address").fill(HOOK)
    await tab.dialog.get_by_role("button", name="Add").click()
    await tab.see("whsec_")
    await tab.confirm("Done")
    await tab.role("link", "shop").click()
    await tab.click("Edit")
    await tab.dialog.get_by_label("Description").fill("sells things")
    await tab.confirm("Save")
    await tab.see("sells things")
    async with dashboard.home.app() as app:
        assert (await app.endpoints.get("shop")).description == "sells things"
        await tab.click("Remove")
        await tab.confirm("Remove it")
        await expect(tab.role("heading", "Endpoints")).to_be_visible()
        with pytest.raises(duly.NotFound):
            await app.endpoints.get("shop")


async def test_an_endpoint_is_tested_paused_and_rotated(tab: Tab, dashboard: Dashboard) -> None:
    environ = {"DULY_EGRESS_ALLOW": "127.0.0.1"}
    dashboard.home.ok("endpoints", "add", "hook", HOOK, environ=environ)
    async with dashboard.home.app() as app:
        await tab.open("endpoints/hook")
        await tab.click("Test")
        await expect(tab.dialog.get_by_text("refused").first).to_be_visible()
        await tab.confirm("Close")
        main = tab.page.get_by_role("main")
        await main.get_by_role("button", name="Pause").click()
        await tab.see_message("Paused")
        assert (await app.endpoints.get("hook")).state == "paused"
        await main.get_by_role("button", name="Resume").click()
        await tab.see_message("Resumed")
        await tab.click("Rotate the secret")
        await tab.dialog.get_by_role("button", name="Rotate", exact=True).click()
        await tab.see("whsec_")
        await tab.confirm("Done")
        assert len((await app.endpoints.get("hook")).secrets) == 2


async def test_a_worker_is_drained_and_resumed(tab: Tab, dashboard: Dashboard) -> None:
    await tab.open("workers")
    await tab.click("Drain")
    await tab.see_message("takes no more")
    await expect(tab.page.get_by_text("draining", exact=True)).to_be_visible()
    main = tab.page.get_by_role("main")
    await main.get_by_role("button", name="Resume").click()
    await tab.see_message("takes new deliveries")


async def test_a_key_is_created_shown_once_and_revoked(tab: Tab, dashboard: Dashboard) -> None:
    await tab.open("settings")
    await tab.click("Create a key")
    await tab.dialog.get_by_label("Name").fill("of a colleague")
    await tab.dialog.get_by_label("Scope").select_option("operate")
    await tab.dialog.get_by_role("button", name="Create", exact=True).click()
    await tab.see("duly_")
    await tab.confirm("Done")
    row = tab.page.get_by_role("row").filter(has_text="of a colleague")
    await row.get_by_role("button", name="Revoke").click()
    await tab.confirm("Revoke it")
    await expect(row).to_contain_text("revoked")
    async with dashboard.home.app() as app:
        (found,) = [each for each in await app.keys.list() if each.name == "of a colleague"]
        assert (found.scope, found.state) == ("operate", "revoked")
