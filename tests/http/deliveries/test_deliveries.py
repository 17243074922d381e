"""Deliveries over HTTP: every accepted delivery is stored."""

from datetime import UTC, datetime

import pytest

from duly import App
from tests.http.conftest import Client
from tests.services.conftest import START

pytestmark = pytest.mark.requirement("S2")


async def test_an_accepted_delivery_is_stored(app: App, client: Client) -> None:
    given = {
        "target": "work",
        "payload": {"n": [1, 2.50, "ü"]},
        "at": "2026-09-01T10:00:00+02:00",
        "priority": 7,
        "tags": ["a", "b"],
        "expires_at": "2026-10-01T00:00:00Z",
    }
    answer = await client.post("/v1/deliveries", json=given)
    assert answer.status_code == 201
    document = answer.json()
    assert answer.headers["location"] == f"/v1/deliveries/{document['id']}"
    due_at = datetime(2026, 9, 1, 8, tzinfo=UTC)
    assert document == {
        "id": document["id"], "state": "pending", "due_at": "2026-09-01T08:00:00Z", "known": False
    }  # fmt: skip
    stored = await app.get(document["id"])
    assert (stored.target, stored.due_at, stored.priority) == ("work", due_at, 7)
    assert (stored.tags, stored.expires_at) == (["a", "b"], datetime(2026, 10, 1, tzinfo=UTC))


async def test_a_payload_is_stored_byte_for_byte(app: App, client: Client) -> None:
    body = b'{"payload": {"b": 1.50,  "a": 12345678901234567890123}, "target": "work"}'
    answer = await client.post("/v1/deliveries", content=body)
    stored = await app.get(answer.json()["id"])
    assert bytes(stored.payload_json) == b'{"b": 1.50,  "a": 12345678901234567890123}'


async def test_the_same_key_gives_the_same_delivery_and_200(app: App, client: Client) -> None:
    given = {"target": "work", "payload": 1, "key": "k-1"}
    first = await client.post("/v1/deliveries", json=given)
    await app.cancel(first.json()["id"])
    second = await client.post("/v1/deliveries", json=given)
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json() == first.json() | {"known": True, "state": "cancelled"}
    other = await client.post("/v1/deliveries", json=given | {"payload": 2})
    assert other.status_code == 409
    assert "use another key" in other.json()["detail"]


async def test_a_delivery_goes_to_a_url_or_an_endpoint(app: App, client: Client) -> None:
    await app.endpoints.add("shop", "https://shop.example/hook")
    to_url = {"target": {"url": "https://example.org/in", "method": "PUT", "headers": {"A": "b"}}}
    first = await client.post("/v1/deliveries", json=to_url)
    assert (await app.get(first.json()["id"])).url == "https://example.org/in"
    second = await client.post("/v1/deliveries", json={"target": {"endpoint": "shop"}})
    assert (await app.get(second.json()["id"])).target == "endpoint:shop"


async def test_a_delivery_is_shown_with_all_its_fields(app: App, client: Client) -> None:
    accepted = await app.deliver("work", {"a": 1}, stream="s", after=60)
    answer = await client.get(f"/v1/deliveries/{accepted.id}")
    assert answer.status_code == 200
    document = answer.json()
    assert document["payload"] == {"a": 1}
    assert (document["stream"], document["state"]) == ("s", "pending")
    assert datetime.fromisoformat(document["accepted_at"]) == START
