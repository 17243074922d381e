"""The overview names everything that needs attention, once, with what to do."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from duly.records.alert import AlertKind
from tests.dashboard.conftest import opened
from tests.dashboard.tab import Tab
from tests.surfaces.processes import Home

pytestmark = [pytest.mark.requirement("S5", "U2"), pytest.mark.asyncio(loop_scope="session")]

TROUBLED = {
    "due": 3,
    "dead": 1,
    "undecided": 1,
    "poison": 2,
    "workers": 0,
    "planner_lag": 120.0,
    "blocked_streams": 1,
    "paused_streams": 2,
    "circuits_open": ["endpoint:shop"],
    "endpoints_disabled": ["old"],
    "endpoints_paused": ["quiet"],
}
SUBJECTS = {
    AlertKind.CIRCUIT_OPEN: "endpoint:shop",
    AlertKind.ENDPOINT_DISABLED: "old",
    AlertKind.STREAM_RELEASED: "line",
}
CONCERNS = [
    ("No worker runs, and 3 deliveries are due.", "Look at workers", "workers"),
    (
        "Schedules miss their time: the first has waited 2 min to be planned.",
        "Look at workers",
        "workers",
    ),
    ("1 dead letter needs a decision.", "Retry or discard", "dead_letters"),
    ("1 stream is blocked by a dead head.", "Release", "streams?state=blocked"),
    ("2 streams are paused.", "Resume", "streams?state=paused"),
    (
        "The circuit of endpoint:shop is open: it fails too often.",
        "Look at it",
        "endpoints/shop",
    ),
    ("The endpoint old is disabled.", "Resume", "endpoints/old"),
    ("The endpoint quiet is paused.", "Resume", "endpoints/quiet"),
    ("2 deliveries have killed workers.", "Look at them", "dead_letters?view=poison"),
    ("Late deliveries: as it is", "Look at them", "deliveries?state=pending"),
    ("Clock jumped: as it is", "Look at alerts", "settings/alerts"),
    ("Store errors: as it is", "Look at alerts", "settings/alerts"),
    ("Swept up: as it is", "Look at alerts", "settings/alerts"),
    ("Stream released (line): as it is", "Look at it", "streams/line"),
]


def alerts() -> list[dict[str, Any]]:
    """An alert of each kind."""
    return [
        {
            "id": number,
            "kind": kind,
            "subject": SUBJECTS.get(kind, ""),
            "detail": "as it is",
            "raised_at": "2026-01-01T00:00:00Z",
            "seen_at": "2026-01-01T00:00:00Z",
            "cleared_at": None,
            "reported": "nothing",
        }
        for number, kind in enumerate(AlertKind)
    ]


async def test_every_trouble_is_named_once_with_its_remedy(tab: Tab) -> None:
    async def troubled(route: Route) -> None:
        found = await (await route.fetch()).json()
        found["now"] |= TROUBLED
        await route.fulfill(body=json.dumps(found), content_type="application/json")

    body = json.dumps({"items": alerts(), "next": None})
    await tab.page.route("**/v1/stats", troubled)
    await tab.page.route("**/v1/alerts?**", lambda route: route.fulfill(body=body))
    await tab.open("overview")
    rows = tab.page.locator(".attention li")
    await expect(rows).to_have_count(len(CONCERNS))
    for row, (text, verb, place) in zip(await rows.all(), CONCERNS, strict=True):
        await expect(row).to_contain_text(text)
        await expect(row.get_by_role("link", name=verb)).to_have_attribute("href", f"#/{place}")


async def test_sample_traffic_is_marked(browser: Browser, tab: Tab, tmp_path: Path) -> None:
    marked = "This is sample traffic"
    await tab.open("overview")
    await tab.see("Needs attention")
    await expect(tab.page.get_by_text(marked)).to_have_count(0)
    home = Home(tmp_path, f"sqlite:///{tmp_path}/duly.db")
    with home.serving("--demo") as server:
        async with opened(browser, server.url) as other:
            await other.open("overview")
            await other.see(marked)
