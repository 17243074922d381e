"""Schedules that left the code are listed and removed over HTTP, and named by the health."""

from typing import Any

import pytest

import duly
from duly import App
from duly.domain.schedules.origin import Origin
from duly.testing import VirtualClock
from tests.http.conftest import Client

pytestmark = pytest.mark.requirement("P9")
PATH = "/v1/orphaned-schedules"


async def add_orphans(app: App, *names: str) -> None:
    """Schedules that the program `shop` declared and no longer declares."""
    for name in names:
        origin = Origin("shop", f"shop.{name}")
        await app.schedules.declare_in_code(origin, name, duly.every("1h"), "work")
    await app.store.declarations.leave("shop", names)


async def listed(client: Client, **query: Any) -> list[str]:
    answer = await client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return [each["name"] for each in answer.json()["items"]]


async def test_orphans_are_listed_with_their_origin_in_pages(
    app: App, client: Client, clock: VirtualClock
) -> None:
    await app.schedule("by-hand", duly.every("1h"), "work")
    await add_orphans(app, "a", "b", "c")
    page = (await client.get(PATH, params={"limit": 2})).json()
    first, second = page["items"]
    assert first == {
        "name": "a",
        "declared_in": "shop.a",
        "program": "shop",
        "left_at": clock.now().isoformat().replace("+00:00", "Z"),
        "target": "work",
        "next_at": (await client.get("/v1/schedules/a")).json()["next_at"],
    }
    assert (second["name"], page["next"]) == ("b", "b")
    assert await listed(client, cursor=page["next"]) == ["c"]


async def test_some_or_all_orphans_are_removed_and_no_other_schedule(
    app: App, client: Client
) -> None:
    await app.schedule("by-hand", duly.every("1h"), "work")
    await add_orphans(app, "a", "b", "c")
    some = await client.post(f"{PATH}/remove", json={"names": ["b", "by-hand", "unknown"]})
    assert (some.status_code, some.json()) == (200, {"removed": ["b"]})
    rest = await client.post(f"{PATH}/remove", json={"all": True})
    assert rest.json() == {"removed": ["a", "c"]}
    assert await listed(client) == []
    assert [each.name for each in await app.schedules.list()] == ["by-hand"]
    removals = [each for each in await app.audit.list() if each.action == "schedule.removed"]
    assert [each.subject for each in removals] == ["c", "a", "b"]


async def test_a_repeated_removal_answers_as_the_first(app: App, client: Client) -> None:
    await add_orphans(app, "a")
    headers = {"idempotency-key": "once"}
    for _ in range(2):
        answer = await client.post(f"{PATH}/remove", json={"all": True}, headers=headers)
        assert answer.json() == {"removed": ["a"]}


async def test_a_schedule_may_be_called_like_the_list_of_orphans(app: App, client: Client) -> None:
    for name in ("orphans", "orphaned-schedules"):
        await add_orphans(app, name)
        assert (await client.get(f"/v1/schedules/{name}")).json()["name"] == name
        assert await listed(client) == [name]
        assert (await client.delete(f"/v1/schedules/{name}")).status_code == 204


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "names"),
        ({"names": []}, "names"),
        ({"names": ["a"], "all": True}, "names"),
        ({"names": "a"}, "names"),
        ({"names": [""]}, "names"),
        ({"all": "yes"}, "all"),
    ],
)
async def test_a_bad_removal_is_refused_by_its_field_and_removes_nothing(
    small_app: App, small_client: Client, body: dict[str, Any], field: str
) -> None:
    await add_orphans(small_app, "a")
    refused = await small_client.post(f"{PATH}/remove", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
    assert await listed(small_client) == ["a"]


async def test_the_verbose_health_names_them(app: App, client: Client) -> None:
    for expected in ([], ["a", "b"]):
        await add_orphans(app, *expected)
        health = (await client.get("/health", params={"verbose": True})).json()
        assert (health["status"], health["orphaned_schedules"]) == ("ok", expected)
