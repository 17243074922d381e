"""Dead letters are held, released and given up, and recover by policies and generations."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from duly import DeliveryRecord
from duly.records.recovery import CAUSES
from tests.dashboard.conftest import ENVIRONMENT, Dashboard, opened
from tests.dashboard.sample_store import fill_store
from tests.dashboard.tab import Tab
from tests.dashboard.test_operations import dead_letter
from tests.support.commands import DEADLINE_SECONDS
from tests.surfaces.processes import Home

pytestmark = [pytest.mark.requirement("S5", "U2"), pytest.mark.asyncio(loop_scope="session")]
PRESETS = {"DULY_RECOVERY_POLICIES": "presets", "DULY_GENERATION": "v41"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def dashboard(home: Home) -> AsyncIterator[Dashboard]:
    """A server whose dead letters recover by the presets."""
    await fill_store(home)
    with home.serving("shop:app", environ=ENVIRONMENT | PRESETS) as server:
        yield Dashboard(home, server)


async def letters(dashboard: Dashboard, tag: str, many: int = 3) -> list[str]:
    """Dead letters that the server has made, with this tag and as their cause."""
    return [(await dead_letter(dashboard, tag, tags=[tag])).id for _ in range(many)]


async def dispositions(dashboard: Dashboard, ids: list[str]) -> list[tuple[str, str | None] | None]:
    """What is to happen with each, and why; None if no operator and no ended policy said so."""
    found = [await dashboard.home.find(id) for id in ids]
    return [
        (each.disposition, each.disposition_note)
        if each.disposition and each.disposition != "recovering"
        else None
        for each in found
    ]


async def hold(dashboard: Dashboard, id: str, note: str) -> None:
    async with dashboard.home.app() as app:
        await app.dead_letters.hold(id, note)


def rows(tab: Tab) -> Locator:
    """The rows of the list."""
    return tab.page.locator("main tbody tr")


async def select(tab: Tab, *ids: str) -> None:
    for id in ids:
        await tab.role("checkbox", f"Select {id}").check()


@pytest.mark.requirement("L2")
async def test_dead_letters_are_found_by_disposition(tab: Tab, dashboard: Dashboard) -> None:
    held, given_up, open_ = await letters(dashboard, "sorted")
    await hold(dashboard, held, "ask the bank")
    async with dashboard.home.app() as app:
        await app.dead_letters.give_up(given_up, "too late")
    await tab.open("dead_letters?view=list&q=tag:sorted")
    await expect(rows(tab)).to_have_count(3)
    for word, id, shown in (("held", held, "held"), ("given up", given_up, "given up")):
        await tab.click(word)
        await expect(rows(tab)).to_have_count(1)
        await expect(tab.role("checkbox", f"Select {id}")).to_be_visible()
        await expect(rows(tab)).to_contain_text(shown)
    await tab.click("open")
    await expect(rows(tab)).to_have_count(1)
    await expect(tab.role("checkbox", f"Select {open_}")).to_be_visible()
    await tab.open('dead_letters?q=disposition:held tag:"sorted"')
    await expect(tab.button("held")).to_have_attribute("aria-pressed", "true")
    await expect(rows(tab).get_by_role("cell").first).to_have_text("1")
    await tab.click("all")
    await expect(rows(tab).get_by_role("cell").first).to_have_text("3")
    await expect(tab.role("searchbox", "Search dead letters")).to_have_value("tag:sorted")


@pytest.mark.requirement("L1")
async def test_a_row_says_when_its_dead_letter_comes_back(tab: Tab) -> None:
    await tab.open("dead_letters?view=list&q=tag:broken&disposition=recovering")
    await expect(rows(tab)).to_have_count(3)
    await expect(rows(tab).first).to_contain_text(
        re.compile(r"comes back in 5 h 5\d min \(try 1 of 1\)")
    )


@pytest.mark.long
@pytest.mark.requirement("L2")
async def test_selected_ones_are_held_released_and_given_up(tab: Tab, dashboard: Dashboard) -> None:
    ids = await letters(dashboard, "chosen")
    await tab.open("dead_letters?view=list&q=tag:chosen")
    await select(tab, *ids[:2])
    await tab.click("Hold")
    await expect(tab.dialog.get_by_text("2 match.")).to_be_visible()
    await tab.dialog.get_by_label("Why").fill("ask the bank")
    await tab.confirm("Hold")
    await tab.see_message("Hold: 2 dead letters")
    held = ("held", "ask the bank")
    assert await dispositions(dashboard, ids) == [held, held, None]
    await select(tab, ids[0])
    await tab.click("Release")
    await tab.confirm("Release")
    await tab.see_message("Release: 1 dead letter")
    assert await dispositions(dashboard, ids) == [None, held, None]
    await select(tab, *ids[1:])
    await tab.click("Give up")
    await expect(tab.dialog).to_contain_text("This is for good")
    await tab.dialog.get_by_label("Why").fill("the bank is gone")
    await tab.confirm("Give up")
    await tab.see_message("Give up: 2 dead letters")
    given_up = ("given_up", "the bank is gone")
    assert await dispositions(dashboard, ids) == [None, given_up, given_up]


@pytest.mark.requirement("L2")
async def test_a_group_is_held_released_and_given_up(tab: Tab, dashboard: Dashboard) -> None:
    ids = await letters(dashboard, "together", 2)
    await tab.open("dead_letters?q=tag:together")
    await tab.click("Hold")
    await expect(tab.dialog.get_by_text("2 match.")).to_be_visible()
    await tab.dialog.get_by_label("Why").fill("wait")
    await tab.confirm("Hold")
    await tab.see_message("Hold: 2 dead letters")
    assert await dispositions(dashboard, ids) == [("held", "wait")] * 2
    await tab.role("group", "Disposition").get_by_role("button", name="held").click()
    await tab.click("Release")
    await expect(tab.dialog.get_by_text("2 match.")).to_be_visible()
    await tab.confirm("Release")
    await tab.see_message("Release: 2 dead letters")
    await tab.see("No dead letters")
    await hold(dashboard, ids[0], "again")
    await tab.click("all")
    await tab.click("Give up")
    await tab.dialog.get_by_label("Why").fill("no use")
    await tab.confirm("Give up")
    await tab.see_message("Give up: 2 dead letters")
    assert await dispositions(dashboard, ids) == [("given_up", "no use")] * 2
    await tab.click("given up")
    await expect(tab.button("Discard")).to_be_visible()
    await expect(tab.button("Retry")).to_have_count(0)


@pytest.mark.requirement("L2")
async def test_discarding_a_group_counts_held_ones_too(tab: Tab, dashboard: Dashboard) -> None:
    ids = await letters(dashboard, "rubbish", 2)
    await hold(dashboard, ids[0], "wait")
    await tab.open("dead_letters?q=tag:rubbish")
    await tab.click("Discard")
    await expect(tab.dialog.get_by_text("2 match.")).to_be_visible()
    await tab.dialog.get_by_label("Why").fill("rubbish")
    await tab.confirm("Discard")
    await tab.see_message("Discard: 2 dead letters")
    assert [(await dashboard.home.find(id)).state for id in ids] == ["cancelled"] * 2


@pytest.mark.requirement("L2")
async def test_one_is_held_released_and_given_up_on_its_page(
    tab: Tab, dashboard: Dashboard
) -> None:
    (id,) = ids = await letters(dashboard, "single", 1)
    main = tab.page.get_by_role("main")
    await tab.open(f"deliveries/{id}")
    await tab.click("Hold")
    await tab.dialog.get_by_label("Why").fill("ask the bank")
    await tab.confirm("Hold")
    await tab.see_in_main("It is held: ask the bank")
    await tab.see_in_main("dead, held")
    assert await dispositions(dashboard, ids) == [("held", "ask the bank")]
    await tab.click("Release")
    await tab.see_message("Released")
    assert await dispositions(dashboard, ids) == [None]
    await tab.click("Give up")
    await expect(tab.dialog).to_contain_text("This is for good")
    await tab.dialog.get_by_label("Why").fill("the bank is gone")
    await tab.confirm("Give up")
    await tab.see_in_main("It was given up for good: the bank is gone")
    assert await dispositions(dashboard, ids) == [("given_up", "the bank is gone")]
    await expect(main.get_by_role("button", name="Retry")).to_have_count(0)
    await expect(main.get_by_role("button", name="Deliver again")).to_be_visible()
    history = main.get_by_role("listitem")
    for entry in (
        ["held", "by an operator", "ask the bank"],
        ["released", "by an operator"],
        ["given up for good", "by an operator", "the bank is gone"],
    ):
        await expect(
            history.filter(has_text=re.compile(r"^\s*" + ".*".join(entry), re.DOTALL))
        ).to_have_count(1)
    await expect(main).not_to_contain_text("dead to dead")


@pytest.mark.requirement("L2", "U4")
async def test_one_is_held_with_keys_only(tab: Tab, dashboard: Dashboard) -> None:
    ids = await letters(dashboard, "typed", 1)
    await tab.open("dead_letters?view=list&q=tag:typed")
    await expect(rows(tab)).to_have_count(1)
    await tab.press("j", "x")
    await tab.button("Hold").focus()
    await tab.press("Enter")
    await expect(tab.dialog.get_by_label("Why")).to_be_focused()
    await tab.page.keyboard.type("by keys")
    await tab.press("Enter")
    await tab.see_message("Hold: 1 dead letter")
    assert await dispositions(dashboard, ids) == [("held", "by keys")]


@pytest.mark.requirement("L2", "U4")
async def test_a_selection_fits_on_a_phone(browser: Browser, dashboard: Dashboard) -> None:
    (id,) = await letters(dashboard, "narrow", 1)
    await hold(dashboard, id, "wait")
    size = {"width": 400, "height": 800}
    async with opened(browser, dashboard.url, viewport=size, color_scheme="dark") as tab:
        await tab.open("dead_letters?view=list&q=tag:narrow")
        await select(tab, id)
        await expect(rows(tab).get_by_text("held")).to_be_in_viewport()
        for name in ("Retry", "Hold", "Release", "Give up", "Discard"):
            await expect(tab.button(name)).to_be_in_viewport()
        assert await tab.page.evaluate("document.documentElement.scrollWidth") <= 400


def policies(tab: Tab) -> Locator:
    """The rows of the policies."""
    return tab.role("region", "Recovery policies").locator("tbody tr")


@pytest.mark.requirement("L1")
async def test_presets_are_listed_and_marked(tab: Tab) -> None:
    await tab.open("dead_letters")
    await tab.role("link", "recovery").click()
    throttled = policies(tab).filter(has_text="throttled")
    for text in ("preset", "all", "30 min", "held"):
        await expect(throttled).to_contain_text(text)
    await expect(throttled.get_by_role("button", name="Replace")).to_be_visible()
    await expect(throttled.get_by_role("button", name="Remove")).to_have_count(0)


@pytest.mark.requirement("L1")
async def test_a_policy_is_added_replaced_and_removed(tab: Tab, dashboard: Dashboard) -> None:
    tab.expected.append("Failed to load resource")  # the answers 422
    await tab.open("dead_letters?view=recovery")
    await tab.click("Add a policy")
    form = tab.dialog
    assert await form.get_by_label("Reason").locator("option").all_inner_texts() == list(CAUSES)
    await form.get_by_label("Reason").select_option("timeout_exceeded")
    await form.get_by_label("Target").fill("works")
    await form.get_by_label("Cool-down").fill("soon")
    await form.get_by_role("button", name="Add").click()
    await expect(form.locator("#note-after").get_by_role("alert")).to_contain_text("no duration")
    await form.get_by_label("Cool-down").fill("90s")
    await form.get_by_label("Tries", exact=True).fill("101")
    await form.get_by_role("button", name="Add").click()
    await expect(form.locator("#note-tries").get_by_role("alert")).to_contain_text("0 to 100")
    await form.get_by_label("Tries", exact=True).fill("2")
    await form.get_by_label("After the last try").select_option("")
    await form.get_by_role("button", name="Add").click()
    await expect(form.locator("#note-then").get_by_role("alert")).to_contain_text("hold or fail")
    await form.get_by_label("After the last try").select_option("fail")
    await tab.confirm("Add")
    row = policies(tab).filter(has_text="timeout_exceeded")
    for text in ("works", "2", "1 min 30 s", "given up"):
        await expect(row).to_contain_text(text)
    assert await stored(dashboard) == [("timeout_exceeded", "works", 2, 90.0, "fail")]
    await row.get_by_role("button", name="Replace").click()
    await expect(form.get_by_label("Cool-down")).to_have_value("90s")
    await form.get_by_label("Cool-down").fill("6h")
    await form.get_by_label("After the last try").select_option("hold")
    await tab.confirm("Replace")
    await expect(row).to_contain_text("6 h")
    assert await stored(dashboard) == [("timeout_exceeded", "works", 2, 21600.0, "hold")]
    await row.get_by_role("button", name="Remove").click()
    await tab.confirm("Remove it")
    await expect(row).to_have_count(0)
    assert await stored(dashboard) == []


async def stored(dashboard: Dashboard) -> list[tuple[object, ...]]:
    """The policies in the store."""
    async with dashboard.home.app() as app:
        found = await app.recovery.policies()
    return [(each.reason, each.target, each.tries, each.after, each.then) for each in found]


async def tried(dashboard: Dashboard, id: str, generation: str) -> DeliveryRecord:
    """The dead letter, once the generation has tried it."""
    async with dashboard.home.app() as app, asyncio.timeout(DEADLINE_SECONDS):
        while (found := await app.get(id)).generation != generation or found.state != "dead":
            pass
        return found


@pytest.mark.long
@pytest.mark.requirement("L3")
async def test_dead_letters_are_counted_and_replayed_in_a_generation(
    tab: Tab, dashboard: Dashboard
) -> None:
    tab.expected.append("Failed to load resource")  # the answer 422
    (held,) = await letters(dashboard, "replayed", 1)
    await hold(dashboard, held, "until v42")
    await tab.open("dead_letters?view=recovery")
    await tab.click("Replay in a generation…")
    await tab.dialog.get_by_label("Generation").fill("two words")
    await tab.dialog.get_by_role("button", name="Count them").click()
    await expect(tab.dialog.get_by_role("alert")).to_contain_text("not one word")
    await tab.dialog.get_by_label("Generation").fill("v42")
    await tab.dialog.get_by_label("Held ones, too").check()
    await tab.dialog.get_by_role("button", name="Count them").click()
    question = tab.role("dialog", "Replay in generation v42?")
    await expect(question).to_contain_text(re.compile(r"\d+ dead letters get one try"))
    assert (await dashboard.home.find(held)).generation is None
    await question.get_by_role("button", name="Replay").click()
    await tab.see_message("Generation v42 has begun")
    row = tab.role("region", "Generations").locator("tbody tr").filter(has_text="v42")
    await expect(row).to_contain_text("tried, too")
    again = await tried(dashboard, held, "v42")
    assert again.revivals == 0
    await tab.open(f"deliveries/{held}")
    await tab.see_in_main("in generation v42")


@pytest.mark.requirement("L3")
async def test_workers_show_their_generation(tab: Tab) -> None:
    await tab.open("workers")
    row = rows(tab).filter(has_text="alive")
    await expect(row).to_contain_text("v41")
