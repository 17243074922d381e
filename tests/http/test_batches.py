"""Batches over HTTP."""

import pytest

from duly import App
from tests.http.conftest import Client
from tests.http.protocol.test_problems import UNKNOWN

pytestmark = pytest.mark.requirement("P8", "S2")
THEN = {"target": "work", "payload": {"month": 11}, "priority": 9}


async def test_a_batch_is_opened_filled_watched_and_closed(app: App, client: Client) -> None:
    app.expect("work")
    opened = await client.post("/v1/batches", json={"then": THEN, "name": "november"})
    assert opened.status_code == 201, opened.text
    batch = opened.json()["id"]
    assert opened.headers["location"] == f"/v1/batches/{batch}"
    added = await client.post("/v1/deliveries", json={"target": "work", "batch": batch})
    assert added.status_code == 201, added.text
    many = [{"target": "work", "batch": batch}, {"target": "work", "batch": UNKNOWN}]
    bulk = (await client.post("/v1/deliveries/bulk", json=many)).json()
    assert (bulk["accepted"], bulk["items"][1]["problem"]["field"]) == (1, "batch")
    members = (await client.get(f"/v1/deliveries?batch={batch}")).json()["items"]
    assert {each["batch"] for each in members} == {batch}
    counts = (await client.get(f"/v1/deliveries/counts?batch={batch}")).json()
    assert counts["states"]["pending"] == 2
    closed = (await client.post(f"/v1/batches/{batch}/close")).json()
    assert (closed["state"], closed["members"], closed["then"]) == ("closed", 2, "work")
    listed = (await client.get("/v1/batches?state=closed")).json()["items"]
    assert listed == [closed]
    assert (await client.post(f"/v1/batches/{batch}/cancel")).json()["cancelled"] == 2


async def test_a_repeated_request_opens_one_batch(app: App, client: Client) -> None:
    app.expect("work")
    again = {"headers": {"idempotency-key": "once"}, "json": {"then": THEN}}
    first, second = [(await client.post("/v1/batches", **again)).json() for _ in range(2)]
    assert first == second
    assert len(await app.batches.list()) == 1


async def test_what_is_wrong_is_said(app: App, client: Client) -> None:
    app.expect("work")
    batch = (await client.post("/v1/batches", json={"then": THEN})).json()["id"]
    await client.post(f"/v1/batches/{batch}/close")
    late = await client.post("/v1/deliveries", json={"target": "work", "batch": batch})
    assert (late.status_code, "closed" in late.json()["detail"]) == (409, True)
    for body, field in (
        ({"target": "work", "batch": UNKNOWN}, "batch"),
        ({"target": "work", "batch": "none"}, "batch"),
    ):
        refused = await client.post("/v1/deliveries", json=body)
        assert (refused.status_code, refused.json()["field"]) == (422, field)
    many = await client.post(
        "/v1/deliveries/bulk?atomic=true",
        json=[{"target": "work"}, {"target": "work", "batch": UNKNOWN}],
    )
    assert (many.status_code, many.json()["field"]) == (422, "batch")
    for then, field in (
        ({"target": "nobody"}, "target"),
        ({"target": {"endpoint": "none"}}, "target"),
        ({"target": "work", "payload": [1]}, "then"),
        ({"target": "work", "batch": batch}, "then"),
        ({"payload": {}}, "then"),
    ):
        refused = await client.post("/v1/batches", json={"then": then})
        assert refused.status_code == 422, refused.text
        assert refused.json()["field"].startswith(field)
    assert (await client.post("/v1/batches", json={})).status_code == 422
    for path in (f"/v1/batches/{UNKNOWN}", f"/v1/batches/{UNKNOWN}/close"):
        answer = await (client.get(path) if path.endswith(UNKNOWN) else client.post(path))
        assert answer.status_code == 404, answer.text
    assert await app.list() == []
