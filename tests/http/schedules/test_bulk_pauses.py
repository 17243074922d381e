"""Schedules are paused and resumed over HTTP by their names or a part of the name."""

from typing import Any

import pytest

from duly import App, every
from tests.http.conftest import Client

pytestmark = pytest.mark.requirement("F11", "S5")
MOVES = ("/v1/schedules/pause", "/v1/schedules/resume")


@pytest.fixture
async def declared(app: App) -> App:
    for name in ("daily-report", "Report", "other"):
        await app.schedule(name, every("1h"), "work")
    return app


async def moved(client: Client, path: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def paused(client: Client, **query: Any) -> list[str]:
    listed = (await client.get("/v1/schedules", params=query)).json()["items"]
    return [each["name"] for each in listed if each["state"] == "paused"]


async def test_those_with_a_text_in_their_name_are_paused_and_resumed(
    declared: App, client: Client
) -> None:
    counted = await moved(client, MOVES[0], text="report", dry_run=True)
    assert (counted["matching"], counted["moved"], await paused(client)) == (2, 0, [])
    done = await moved(client, MOVES[0], text="report", reason="repair")
    assert (done["matching"], done["moved"], done["finished"]) == (2, 2, True)
    assert sorted(await paused(client)) == ["Report", "daily-report"]
    assert await paused(client, text="DAILY") == ["daily-report"]
    assert (await declared.schedules.get("Report")).pause_reason == "repair"
    assert (await moved(client, MOVES[1], names=["Report"]))["moved"] == 1
    assert await paused(client) == ["daily-report"]
    assert (await moved(client, MOVES[1], all=True, from_pause=True))["moved"] == 1
    assert await paused(client) == []


async def test_all_are_moved_only_on_request(declared: App, client: Client) -> None:
    for path in MOVES:
        for body in ({}, {"all": True, "text": "report"}, {"all": True, "names": ["other"]}):
            refused = await client.post(path, json=body)
            assert (refused.status_code, refused.json()["field"]) == (422, "all"), body
    assert await paused(client) == []
    assert (await moved(client, MOVES[0], all=True))["moved"] == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": ""}, "text"),
        ({"names": [""]}, "names"),
        ({"names": "other"}, "names"),
        ({"all": True, "until": "yesterday"}, "until"),
        ({"all": True, "seconds": 21}, "seconds"),
    ],
)
async def test_a_bad_filter_is_refused_by_its_field(
    small_client: Client, body: dict[str, Any], field: str
) -> None:
    for path in MOVES:
        refused = await small_client.post(path, json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text


@pytest.mark.parametrize("name", ["pause", "resume", "explain"])
async def test_a_schedule_may_be_called_like_an_operation(
    app: App, client: Client, name: str
) -> None:
    path = f"/v1/schedules/{name}"
    assert (await client.get(path)).status_code == 404
    declared = await client.put(path, json={"rule": {"every": "1h"}, "target": "work"})
    assert declared.status_code == 201, declared.text
    assert (await client.post(f"{path}/pause")).json()["state"] == "paused"
    assert (await client.get(path)).json()["name"] == name
    assert (await client.delete(path)).status_code == 204
    assert await app.schedules.list() == []
