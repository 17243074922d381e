"""A retry plan has the same document in all requests and answers."""

from typing import Any

import pytest

import duly
from duly import App
from tests.http.conftest import Client

pytestmark = pytest.mark.requirement("F2", "S2")
HOOK = "https://shop.example/hook"
PLANS: dict[str, dict[str, Any]] = {
    "none": {"type": "none"},
    "delays": {"type": "delays", "seconds": [30.0, 120.0]},
    "exponential": {"type": "exponential", "base": 5.0, "attempts": 3},
    "rules": {
        "type": "exponential",
        "rules": {
            "timeout_exceeded": {"type": "none"},
            "unknown": {"type": "delays", "seconds": [1.0]},
        },
        "retry_on": [404, 409],
        "base": 7.0,
    },
}
WRONG: dict[str, tuple[Any, str]] = {
    "a text": ("none", "retry"),
    "another kind": ({"type": "never"}, "retry.type"),
    "no kind": ({"seconds": [1]}, "retry"),
    "a misspelt field": ({"type": "exponential", "atempts": 3}, "retry"),
    "too many attempts": ({"type": "exponential", "attempts": 1001}, "retry.attempts"),
    "a cap below its base": ({"type": "exponential", "base": 9, "cap": 1}, "retry.cap"),
    "a delay before now": ({"type": "delays", "seconds": [-1]}, "retry.seconds[0]"),
    "a status that is none": ({"type": "none", "retry_on": [200]}, "retry.retry_on[0]"),
    "an unknown reason": (
        {"type": "none", "rules": {"lost": {"type": "none"}}},
        "retry.rules",
    ),
}


async def created(client: Client, kind: str, plan: Any) -> Any:
    """Create a record of that kind with the plan; returns the answer."""
    match kind:
        case "delivery":
            body = {"target": "work", "retry": plan, "after": 60}
            return await client.post("/v1/deliveries", json=body)
        case "keyed delivery":
            # With an Idempotency-Key the request does not use the fast path.
            body = {"target": {"url": HOOK}, "retry": plan, "after": 60}
            return await client.post("/v1/deliveries", json=body, headers={"idempotency-key": "k"})
        case "schedule":
            body = {"rule": {"every": "1h"}, "target": "work", "retry": plan}
            return await client.put("/v1/schedules/hourly", json=body)
    return await client.post("/v1/endpoints", json={"name": "shop", "url": HOOK, "retry": plan})


KINDS = {
    "delivery": "/v1/deliveries/{id}",
    "keyed delivery": "/v1/deliveries/{id}",
    "schedule": "/v1/schedules/hourly",
    "endpoint": "/v1/endpoints/shop",
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_plan_is_shown_as_it_was_sent(
    app: App, client: Client, kind: str, plan: str
) -> None:
    made = await created(client, kind, PLANS[plan])
    assert made.status_code == 201, made.text
    shown = (await client.get(KINDS[kind].format(id=made.json().get("id")))).json()
    assert shown["retry"] == PLANS[plan]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_invalid_plan_is_refused_with_its_field_and_nothing_is_stored(
    small_app: App, small_client: Client, kind: str, wrong: str
) -> None:
    plan, field = WRONG[wrong]
    refused = await created(small_client, kind, plan)
    assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
    assert not await small_app.list()
    assert not await small_app.schedules.list()
    assert not await small_app.endpoints.list()


async def test_deliveries_of_a_schedule_have_its_plan(app: App, client: Client) -> None:
    await created(client, "schedule", PLANS["delays"])
    (made,) = (await client.get("/v1/deliveries?schedule=hourly")).json()["items"]
    assert made["retry"] == PLANS["delays"]
    changed = await client.patch("/v1/schedules/hourly", json={"retry": None})
    assert changed.json()["retry"] is None
    (made,) = (await client.get("/v1/deliveries?schedule=hourly")).json()["items"]
    assert made["retry"] is None


async def test_an_endpoint_without_a_plan_shows_the_default(app: App, client: Client) -> None:
    await created(client, "endpoint", PLANS["none"])
    changed = await client.patch("/v1/endpoints/shop", json={"retry": None})
    assert changed.json()["retry"] == {"type": "delays", "seconds": [30.0, 120.0, 600.0]}


async def test_each_delivery_of_a_bulk_has_its_own_plan(app: App, client: Client) -> None:
    plans = [None, *PLANS.values()]
    body = [{"target": "work", "retry": each} for each in plans]
    wrong = {"target": "work", "retry": {"type": "exponential", "base": 9, "cap": 1}}
    items = (await client.post("/v1/deliveries/bulk", json=[*body, wrong])).json()["items"]
    shown = [(await client.get(f"/v1/deliveries/{each['id']}")).json() for each in items[:-1]]
    assert [each["retry"] for each in shown] == plans
    assert items[-1]["problem"]["field"] == "retry.cap"


async def test_the_openapi_document_has_the_plans(small_client: Client) -> None:
    schemas = (await small_client.get("/docs/openapi.json")).json()["components"]["schemas"]
    for name in ("NewDelivery", "ScheduleSpec", "NewEndpoint", "Delivery"):
        assert "Exponential" in str(schemas[name]["properties"]["retry"]), name
    assert schemas["Exponential"]["properties"]["attempts"]["maximum"] == 1000


async def test_a_plan_in_python_is_the_same_document(app: App, client: Client) -> None:
    plan = duly.exponential(base=5, attempts=3).on("unknown", duly.no_retry)
    id = (await app.deliver("work", retry=plan)).id
    assert (await app.get(id)).retry == plan
    assert (await client.get(f"/v1/deliveries/{id}")).json()["retry"] == {
        "type": "exponential",
        "rules": {"unknown": {"type": "none"}},
        "base": 5.0,
        "attempts": 3,
    }
