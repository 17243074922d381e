"""Charts: outcomes of everything, of one schedule or endpoint, and percentiles of durations."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Route, expect

from tests.dashboard.conftest import Dashboard, opened
from tests.dashboard.tab import Tab
from tests.dashboard.test_operations import schedule

pytestmark = [pytest.mark.requirement("S5"), pytest.mark.asyncio(loop_scope="session")]
Run = Callable[[str], Awaitable[Any]]
START = "2026-01-05T12:0{}:00Z"
NOTHING = {"completed": 0, "failed": 0, "dead": 0, "accepted": 0}


@pytest_asyncio.fixture(loop_scope="session")
async def run(browser: Browser, dashboard: Dashboard) -> AsyncIterator[Run]:
    """Evaluate an expression with everything that lib/charts.js exports as `charts`."""
    async with opened(browser, dashboard.url) as tab:
        await tab.open("settings/about")
        yield lambda text: tab.page.evaluate(
            f'async () => {{ const charts = await import("/dashboard/lib/charts.js"); {text} }}'
        )


def point(minute: int, **values: object) -> dict[str, object]:
    """One step of a series."""
    empty = {"lateness": None, "pickup": None, "run": None}
    return {"at": START.format(minute), **NOTHING, **empty, **values}


async def serve_series(tab: Tab, points: list[dict[str, object]]) -> None:
    """Answer all requests for a series with these points."""

    async def answer(route: Route) -> None:
        document = {"since": START, "until": START, "step": 60, "points": points}
        await route.fulfill(body=json.dumps(document), content_type="application/json")

    await tab.page.route("**/v1/stats/series?*", answer)


def labels(card: Locator) -> Locator:
    """The words at the axes of a chart."""
    return card.locator("text.axis")


async def test_an_axis_of_durations_has_round_labels(tab: Tab) -> None:
    late = {"p50": 0.004, "p95": 0.3, "p99": 42.0}
    await serve_series(tab, [point(1, lateness=late), point(2), point(3, lateness=late)])
    await tab.open()
    card = tab.role("region", "Lateness")
    for text in ("1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min"):
        await expect(labels(card).filter(has_text=text).first).to_have_text(text)
    await expect(card.get_by_role("figure")).to_contain_text("p50 4 ms")
    await expect(card.get_by_role("figure")).to_contain_text("p99 42 s")


async def test_a_step_without_values_is_a_gap_and_no_zero(tab: Tab) -> None:
    late = {"p50": 0.004, "p95": 0.3, "p99": 42.0}
    minutes = [point(minute, pickup=None if minute == 3 else late) for minute in range(1, 7)]
    await serve_series(tab, minutes)
    await tab.open()
    card = tab.role("region", "Pickup")
    lines = card.locator("polyline.busy")
    await expect(lines).to_have_count(2)
    points = [await lines.nth(each).get_attribute("points") or "" for each in range(2)]
    assert [len(each.split()) for each in points] == [2, 3]
    await card.get_by_role("img").focus()
    for _ in range(3):
        await tab.press("ArrowLeft")
    await expect(card.get_by_role("figure")).to_contain_text("p50 –")


async def test_the_table_behind_a_chart_has_its_values(tab: Tab) -> None:
    await serve_series(tab, [point(1, completed=1234, failed=5), point(2, completed=7)])
    await tab.open()
    card = tab.role("region", "Outcomes")
    await card.get_by_text("Values as a table").click()
    cells = card.get_by_role("row").nth(2).get_by_role("cell")
    assert (await cells.all_inner_texts())[1:] == ["1,234", "5", "0"]


async def test_a_schedule_and_an_endpoint_show_their_own_outcomes(
    tab: Tab, dashboard: Dashboard
) -> None:
    await schedule(dashboard, "charted")
    async with dashboard.home.app() as app:
        await app.schedules.trigger("charted")
    await tab.open("schedules/charted")
    # The server writes these counts every ten seconds, perhaps of a minute that is over.
    chart = tab.role("region", "Outcomes").get_by_role("figure")
    ones = chart.locator("tbody td", has_text=re.compile("^1$"))
    await expect(ones).to_have_count(1)
    await tab.open("endpoints/billing")
    await expect(chart).to_contain_text("completed 0")
    await expect(ones).to_have_count(0)
    wanted = [each for each in tab.requests if "/stats/series?" in each]
    assert any("schedule=charted" in each for each in wanted)
    assert any("target=endpoint%3Abilling" in each for each in wanted)


async def test_the_period_is_in_the_address(tab: Tab) -> None:
    await tab.open("schedules/weekly-report")
    await tab.click("week")
    await expect(tab.page).to_have_url(f"{tab.url}/#/schedules/weekly-report?period=week")
    await tab.see("per 2 hours")
    await expect(tab.button("week")).to_have_attribute("aria-pressed", "true")
    await tab.page.wait_for_function(
        "performance.getEntriesByType('resource').some((each) => each.name.includes('step=7200'))"
    )


async def test_visible_schedules_have_a_sparkline_in_words(tab: Tab) -> None:
    await serve_series(tab, [point(1, completed=2, dead=1), point(2, completed=3)])
    await tab.open("schedules")
    row = tab.page.get_by_role("row").filter(has_text="weekly-report")
    await expect(
        row.get_by_role("img", name="Last day: 5 completed, 0 failed attempts, 1 dead")
    ).to_be_visible()
    await expect(row.locator("rect")).to_have_count(3)


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 2, 4]),
        (5, [0, 5, 10]),
        (11, [0, 10, 20]),
        (399, [0, 200, 400]),
    ],
)
async def test_an_axis_of_counts_has_whole_numbers(run: Run, most: int, ticks: list[int]) -> None:
    assert await run(f"return charts.countScale({most}).ticks;") == ticks


async def test_durations_outside_the_axis_stay_inside_the_chart(run: Run) -> None:
    script = """
      const { ticks, part } = charts.durationScale([0, 9e9]);
      return [ticks[0], ticks.at(-1), part(0), part(9e9)];
    """
    assert await run(script) == [0.001, 864_000, 0, 1]
