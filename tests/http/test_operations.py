"""Endpoints, streams, dead letters and workers over HTTP."""

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App
from duly.ports import IdempotentRequest
from duly.testing import VirtualClock
from tests.http.conftest import Client
from tests.http.protocol.test_problems import UNKNOWN
from tests.services.conftest import START, record_payloads

pytestmark = pytest.mark.requirement("S2")
NEW = {"name": "shop", "url": "https://shop.example/hook", "headers": {"X-Api-Key": "hush"}}


async def test_an_endpoint_is_added_changed_and_removed(app: App, client: Client) -> None:
    added = await client.post("/v1/endpoints", json=NEW | {"rate": 5})
    assert added.status_code == 201, added.text
    assert added.json()["secret"].startswith("whsec_")
    assert added.headers["location"] == "/v1/endpoints/shop"
    assert (await client.post("/v1/endpoints", json=NEW)).status_code == 409

    changed = await client.patch(
        "/v1/endpoints/shop", json={"rate": None, "timeout": 5}, headers={"if-match": '"1"'}
    )
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"'), changed.text
    assert (changed.json()["rate"], changed.json()["timeout"]) == (None, 5)
    stale = await client.patch("/v1/endpoints/shop", json={"rate": 1}, headers={"if-match": '"1"'})
    assert stale.status_code == 412
    paused = await client.post("/v1/endpoints/shop/pause", json={"reason": "late"})
    assert (paused.json()["state"], paused.json()["state_reason"]) == ("paused", "late")
    assert (await client.post("/v1/endpoints/shop/resume")).json()["state"] == "active"
    await client.post("/v1/deliveries", json={"target": {"endpoint": "shop"}})
    assert (await client.delete("/v1/endpoints/shop")).status_code == 409
    gone = await client.delete("/v1/endpoints/shop?cancel_waiting=true")
    assert gone.status_code == 204, gone.text


async def test_a_secret_is_shown_once_and_never_stored_in_answers(app: App, client: Client) -> None:
    key = {"idempotency-key": "k"}
    secret = (await client.post("/v1/endpoints", json=NEW, headers=key)).json()["secret"]
    repeated = await client.post("/v1/endpoints", json=NEW, headers=key)
    assert repeated.status_code == 409
    assert "returned only once" in repeated.json()["detail"]
    rotated = (await client.post("/v1/endpoints/shop/rotate")).json()
    assert rotated["secret"] != secret
    assert len(rotated["secrets"]) == 2
    for path in ("/v1/endpoints", "/v1/endpoints/shop"):
        text = (await client.get(path)).text
        assert "whsec_" not in text
        assert "hush" not in text
    kept = await app.store.idempotency.begin(IdempotentRequest("k", "", UNKNOWN))
    assert kept is not None
    assert kept.answer is None


async def test_an_endpoint_is_tested(app: App, client: Client) -> None:
    await app.endpoints.add("down", "https://127.0.0.1.invalid/")
    answer = await client.post("/v1/endpoints/down/test", json={"payload": {"a": 1}})
    document = answer.json()
    assert (answer.status_code, document["ok"]) == (200, False), answer.text
    assert document["reason"]


async def make_dead_letters(app: App, *payloads: int, **options: Any) -> list[str]:
    """Make dead letters; returns their ids."""

    @app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Any) -> None:
        raise ValueError(f"no {delivery.payload}")

    ids = [(await app.deliver("fails", each, **options)).id for each in payloads]
    engine = app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.step()
    return ids


async def test_dead_letters_are_listed_grouped_and_retried(
    app: App, client: Client, clock: VirtualClock
) -> None:
    ids = await make_dead_letters(app, 1, 2, 3)
    page = (await client.get("/v1/dead-letters?limit=2")).json()
    rest = (await client.get("/v1/dead-letters", params={"cursor": page["next"]})).json()
    assert {each["id"] for each in page["items"] + rest["items"]} == set(ids)
    groups = (await client.get("/v1/dead-letters/groups")).json()["items"]
    assert sum(each["count"] for each in groups) == 3

    dry = await client.post("/v1/dead-letters/retry", json={"all": True, "dry_run": True})
    assert (dry.json()["matching"], dry.json()["moved"]) == (3, 0)
    for unsaid in ({}, {"all": True, "target": "fails"}, {"until": START.isoformat()}):
        refused = await client.post("/v1/dead-letters/retry", json=unsaid)
        assert (refused.status_code, refused.json()["field"]) == (422, "all")
    one = await client.post("/v1/dead-letters/retry", json={"ids": ids[:1]})
    assert (one.json()["moved"], one.json()["finished"]) == (1, True)
    given_up = await client.post("/v1/dead-letters/discard", json={"text": "no 2", "note": "old"})
    assert given_up.json()["moved"] == 1
    assert [(await app.get(id)).state for id in ids] == ["pending", "cancelled", "dead"]


async def test_a_stream_is_shown_and_operated(app: App, client: Client) -> None:
    await make_dead_letters(app, 1, 2, stream="a/b")
    path = "/v1/streams/a%2Fb"
    shown = (await client.get(path)).json()
    assert (shown["state"], shown["waiting"]) == ("blocked", 1)
    listed = (await client.get("/v1/streams?state=blocked")).json()
    assert [each["name"] for each in listed["items"]] == ["a/b"]
    configured = await client.patch(path, json={"on_failure": "release"})
    assert configured.json()["on_failure"] == "release"
    assert (await client.post(f"{path}/release")).json()["state"] == "waiting"
    refused = await client.post(f"{path}/release")
    assert refused.status_code == 409
    assert (await client.post(f"{path}/pause", json={})).json()["state"] == "paused"
    assert (await client.post(f"{path}/resume")).json()["state"] == "waiting"
    assert (await client.post(f"{path}/dead-letter", json={"note": "x"})).status_code == 200
    assert (await client.get("/v1/streams/none")).status_code == 404


@pytest.mark.requirement("L4")
async def test_selected_followers_are_released(app: App, client: Client) -> None:
    ids = await make_dead_letters(app, 1, 2, 3, 4, stream="line")
    path = "/v1/streams/line/release"
    released = await client.post(path, json={"only": [ids[2]]})
    assert released.status_code == 200, released.text
    shown = released.json()
    assert (shown["state"], shown["head"]["id"], shown["waiting"]) == ("blocked", ids[0], 2)
    assert (await client.post(path, json={"keep": [ids[1]]})).json()["waiting"] == 1
    for body, field in (
        ({"only": [ids[1]], "keep": [ids[1]]}, "keep"),
        ({"only": []}, "only"),
        ({"only": [ids[0]]}, "only"),
        ({"keep": [UNKNOWN]}, "keep"),
        ({"only": [1]}, "only[0]"),
        ({"all": True}, "body"),
    ):
        refused = await client.post(path, json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert (await client.get("/v1/streams/line")).json()["waiting"] == 1
    assert (await client.post(path)).json()["head"]["id"] == ids[1]
    assert (await client.post(path, json={"only": [ids[1]]})).status_code == 409


@pytest.mark.requirement("L4")
async def test_the_block_of_a_stream_is_limited(
    app: App, client: Client, clock: VirtualClock
) -> None:
    await make_dead_letters(app, 1, 2, stream="line")
    path = "/v1/streams/line"
    shown = (await client.patch(path, json={"block_for": 900})).json()
    assert (shown["on_failure"], shown["block_for"]) == ("block", 900)
    assert shown["blocked_until"] == (START + timedelta(minutes=15)).isoformat().replace(
        "+00:00", "Z"
    )
    for body in ({"block_for": 0}, {"block_for": -1}, {"block_for": 366 * 86400}):
        refused = await client.patch(path, json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, "block_for")
    refused = await client.patch(path, json={"on_failure": "release", "block_for": 900})
    assert (refused.status_code, refused.json()["field"]) == (422, "block_for")
    assert (await client.patch(path, json={})).status_code == 422
    assert (await client.patch(path, json={"on_failure": "block"})).json() == shown
    shown = (await client.patch(path, json={"block_for": None})).json()
    assert (shown["block_for"], shown["blocked_until"]) == (None, None)


async def test_a_worker_is_drained_and_resumed(app: App, client: Client) -> None:
    seen = record_payloads(app)
    engine = app.engine(stepped=True)
    await engine.prepare()
    (worker,) = (await client.get("/v1/workers")).json()["items"]
    assert (worker["alive"], worker["handlers"], worker["draining_at"]) == (True, ["work"], None)
    path = f"/v1/workers/{worker['id']}"
    drained = await client.post(f"{path}/drain")
    assert drained.status_code == 200
    await app.deliver("work", 1)
    await engine.worker.step()
    assert seen == []
    assert (await client.get("/v1/workers")).json()["items"] == [drained.json()]
    assert drained.json()["draining_at"]
    resumed = await client.post(f"{path}/resume")
    assert (resumed.status_code, resumed.json()) == (200, worker)
    await engine.worker.step()
    assert seen == [1]
    assert [each.action for each in await app.audit.list()] == [
        "worker.resumed",
        "worker.drained",
    ]
    assert (await client.post("/v1/workers/99/drain")).status_code == 404
    assert (await client.post("/v1/workers/banana/drain")).status_code == 422
