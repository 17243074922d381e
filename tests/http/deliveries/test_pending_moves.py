"""Pending deliveries are counted, cancelled and retried over HTTP by a filter."""

from typing import Any

import pytest

from duly import App
from tests.http.conftest import Client
from tests.http.deliveries.test_operations import step
from tests.services.conftest import record_payloads

pytestmark = pytest.mark.requirement("F11", "S2")
MOVES = ("/v1/deliveries/cancel", "/v1/deliveries/retry")


async def accept(app: App, *tags: str) -> list[str]:
    """One delivery for each tag, due in an hour."""
    return [(await app.deliver("work", tag, after=3600, tags=[tag])).id for tag in tags]


async def states(app: App, ids: list[str]) -> list[str]:
    return [(await app.get(id)).state for id in ids]


async def moved(client: Client, path: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_those_that_match_are_cancelled_after_a_dry_run(app: App, client: Client) -> None:
    ids = await accept(app, "old", "old", "new")
    counted = await moved(client, "/v1/deliveries/cancel", tag="old", dry_run=True)
    assert counted == {"matching": 2, "moved": 0, "until": None, "finished": True}
    assert await states(app, ids) == ["pending"] * 3
    done = await moved(client, "/v1/deliveries/cancel", tag="old")
    assert (done["matching"], done["moved"], done["finished"]) == (2, 2, True)
    assert await states(app, ids) == ["cancelled", "cancelled", "pending"]
    repeated = await moved(client, "/v1/deliveries/cancel", tag="old", until=done["until"])
    assert (repeated["moved"], repeated["finished"]) == (0, True)


async def test_those_that_match_are_made_due_now(app: App, client: Client) -> None:
    seen = record_payloads(app)
    await accept(app, "red", "blue")
    done = await moved(client, "/v1/deliveries/retry", tag="red")
    assert (done["matching"], done["moved"]) == (1, 1)
    await step(app)
    assert seen == ["red"]


async def test_all_are_moved_only_on_request(app: App, client: Client) -> None:
    ids = await accept(app, "red", "blue")
    for path in MOVES:
        for body in ({}, {"all": True, "tag": "red"}, {"state": "pending"}):
            refused = await client.post(path, json=body)
            assert (refused.status_code, refused.json()["field"]) == (422, "all"), body
    assert await states(app, ids) == ["pending"] * 2
    assert (await moved(client, "/v1/deliveries/cancel", all=True))["moved"] == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tag": "a", "state": "dead"}, "state"),
        ({"tag": ""}, "tag"),
        ({"id": "zz"}, "id"),
        ({"all": True, "until": "2026-11-17T09:00:00"}, "until"),
        ({"all": True, "seconds": 0}, "seconds"),
        ({"colour": "red"}, "body"),
    ],
)
async def test_a_bad_filter_is_refused_by_its_field(
    small_client: Client, body: dict[str, Any], field: str
) -> None:
    for path in MOVES:
        refused = await small_client.post(path, json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text


@pytest.mark.requirement("S5")
async def test_counts_are_by_state_and_follow_the_filter(app: App, client: Client) -> None:
    first, *_ = await accept(app, "red", "red", "blue")
    await app.cancel(first)
    document = (await client.get("/v1/deliveries/counts")).json()
    none = dict.fromkeys(("pending", "processing", "completed", "dead", "cancelled"), 0)
    assert document["states"] == none | {"pending": 2, "cancelled": 1}
    assert (document["capped"], document["counted_up_to"]) == ([], 10_000)
    red = (await client.get("/v1/deliveries/counts", params={"tag": "red"})).json()
    assert red["states"] == none | {"pending": 1, "cancelled": 1}
    refused = await client.get("/v1/deliveries/counts", params={"state": "dead"})
    assert (refused.status_code, refused.json()["field"]) == (422, "state")
