"""Queries of an operator over HTTP: payloads, transitions, late and stuck deliveries, stats."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App
from duly.testing import VirtualClock
from tests.http.conftest import Client
from tests.http.deliveries.test_operations import step
from tests.http.raw import DEADLINE_SECONDS
from tests.services.conftest import record_payloads

pytestmark = pytest.mark.requirement("S2", "C10")


async def items(client: Client, path: str, **query: Any) -> list[dict[str, Any]]:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


async def one_dead(app: App, payload: object = None, **options: Any) -> str:
    """Make a dead letter at the head of a stream; returns its id."""
    accepted = await app.deliver("work", payload, stream="line", after=60, **options)
    await app.streams.dead_letter_head("line", "on purpose")
    return accepted.id


async def test_lists_have_payloads_on_request(app: App, client: Client) -> None:
    await app.deliver("work", {"n": 1}, after=60)
    dead = await one_dead(app, b'{"n":   2}')
    paths = ("/v1/deliveries", "/v1/dead-letters")
    for path in paths:
        assert all("payload" not in each for each in await items(client, path))
        found = await items(client, path, payloads=True)
        assert {"n": 2} in [each["payload"] for each in found], path
    assert '"payload":{"n":   2}' in (await client.get("/v1/deliveries?payloads=true")).text
    assert [each["id"] for each in await items(client, "/v1/dead-letters")] == [dead]


async def test_every_transition_of_a_delivery_is_shown_with_all_its_fields(
    app: App, client: Client
) -> None:
    id = await one_dead(app, 1)
    await app.dead_letters.discard(id, "spent")
    found = (await client.get(f"/v1/deliveries/{id}/moves")).json()
    assert [(each["outcome"], each["started_at"]) for each in found] == [
        ("dead_lettered", None),
        ("discarded", None),
    ]
    assert found[1]["error"] == "spent"


async def test_late_and_stuck_deliveries_are_listed(
    app: App, client: Client, clock: VirtualClock
) -> None:
    waiting = (await app.deliver("work", 1)).id
    clock.advance(90)
    (late,) = await items(client, "/v1/deliveries/late", payloads=True)
    assert (late["id"], late["payload"]) == (waiting, 1)
    assert await items(client, "/v1/deliveries/late", grace=100) == []
    (stuck,) = await items(client, "/v1/deliveries/stuck", payloads=True)
    assert (stuck["id"], stuck["payload"]) == (waiting, 1)
    assert stuck["why"]
    for query in ("grace=-1", "grace=nan", "grace=1e300", "limit=1001", "limit=0"):
        assert (await client.get(f"/v1/deliveries/late?{query}")).status_code == 422, query


@pytest.mark.requirement("F11")
async def test_failures_are_counted_since_a_moment_or_for_a_duration(
    app: App, client: Client, clock: VirtualClock
) -> None:
    @app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Any) -> None:
        raise ValueError("no")

    await app.deliver("fails")
    await step(app)
    clock.advance(3600)
    path = "/v1/stats/failures"
    assert (await client.get(path)).json()["reasons"] == {"handler_exception": 1}
    assert (await client.get(path, params={"span": 60})).json()["reasons"] == {}
    early = (clock.now() - timedelta(hours=2)).isoformat()
    assert (await client.get(path, params={"since": early})).json()["states"] == {"dead": 1}
    both = await client.get(path, params={"since": early, "span": 60})
    assert (both.status_code, both.json()["field"]) == (422, "span")
    # A read waits only briefly until the counts are written.
    await app.rollup_writer.tick()
    series = (await client.get("/v1/stats/series", params={"span": 7200})).json()
    assert sum(each["dead"] for each in series["points"]) == 1


async def test_the_status_and_the_current_minute_are_shown(app: App, client: Client) -> None:
    record_payloads(app)
    await app.schedule("hourly", duly.every("1h"), "work")
    await app.deliver("work", 1)
    await step(app)
    status = (await client.get("/v1/status")).json()
    assert (status["workers"], status["recovering"], status["planner_lag"]) == (1, None, 0.0)
    assert status["next_planned_at"]
    top = await top_with_counts(client)
    assert (top["completed_per_second"], top["due"], len(top["workers"])) == (0.02, 0, 1)


async def top_with_counts(client: Client) -> dict[str, Any]:
    """The answer, once the counts are written: it does not wait long for a slow store."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            found: dict[str, Any] = (await client.get("/v1/stats/top")).json()
            if found["completed_per_second"]:
                return found


async def test_one_dead_letter_is_retried_edited_or_discarded(app: App, client: Client) -> None:
    record_payloads(app)
    path = f"/v1/dead-letters/{await one_dead(app, 1)}"
    kept = await client.post(f"{path}/retry", json={"reset_attempts": False})
    assert (kept.status_code, kept.json()["state"]) == (200, "pending"), kept.text
    assert (await client.post(f"{path}/retry")).status_code == 409
    await app.streams.dead_letter_head("line")
    edited = await client.post(
        f"{path}/edit",
        content=b'{"payload": {"n":  7}}',
        headers={"content-type": "application/json"},
    )
    assert '"payload":{"n":  7}' in edited.text
    await app.streams.dead_letter_head("line")
    assert (await client.post(f"{path}/discard", json={})).status_code == 422
    gone = await client.post(f"{path}/discard", json={"note": "spent"})
    assert (gone.status_code, gone.json()["state"]) == (200, "cancelled")
    actions = [each.action for each in await app.audit.list(limit=10)]
    assert [each for each in actions if each.startswith("dead_letter.")] == [
        "dead_letter.discarded",
        "dead_letter.edited",
        "dead_letter.retried",
    ]


async def test_a_bulk_operation_ends_at_its_time_limit(app: App, client: Client) -> None:
    for n in range(3):
        await app.deliver("work", stream=f"s{n}", after=60)
        await app.streams.dead_letter_head(f"s{n}")
    sent = {"all": True, "rate": 1.0, "seconds": 0.5}
    moved = (await client.post("/v1/dead-letters/retry", json=sent)).json()
    assert (moved["moved"], moved["finished"]) == (1, False)
    for seconds in (0, 21):
        refused = await client.post("/v1/dead-letters/retry", json=sent | {"seconds": seconds})
        assert (refused.status_code, refused.json()["field"]) == (422, "seconds")


async def test_poison_candidates_are_listed_with_a_reason(app: App, client: Client) -> None:
    @app.handler("fails", retry=duly.delays(60))
    async def fails(delivery: Any) -> None:
        raise ValueError("no")

    id = (await app.deliver("fails")).id
    await step(app)
    assert await items(client, "/v1/dead-letters/poison") == []
    (suspect,) = await items(client, "/v1/dead-letters/poison", last_attempts=True)
    assert (suspect["id"], suspect["why"]) == (id, "its next attempt is the last of 2")


async def test_single_headers_of_an_endpoint_are_changed_without_being_shown(
    app: App, client: Client
) -> None:
    headers = {"X-Api-Key": "hush", "X-Team": "7", "X-Old": "1"}
    await app.endpoints.add("shop", "https://shop.example/hook", headers=headers)
    changes = {"x-team": "8", "x-old": None}
    changed = await client.patch("/v1/endpoints/shop", json={"header_changes": changes})
    assert changed.json()["headers"] == {"X-Api-Key": "***", "x-team": "8"}
    kept = (await app.store.endpoints.get("shop")).details.headers
    assert kept == {"X-Api-Key": "hush", "x-team": "8"}
    for wrong in ({"x-none": None}, {"a b": "c"}):
        refused = await client.patch("/v1/endpoints/shop", json={"header_changes": wrong})
        assert refused.status_code == 422, wrong
    both = {"header_changes": changes, "headers": {}}
    assert (await client.patch("/v1/endpoints/shop", json=both)).status_code == 422


async def test_a_schedule_is_shown_with_its_webhook_and_progress(app: App, client: Client) -> None:
    target = duly.webhook("https://shop.example/hook", headers={"X-Api-Key": "hush"}, timeout=5)
    await app.schedule("ping", duly.every(1234.567), target, {"a": 1})
    answer = await client.get("/v1/schedules/ping")
    found = answer.json()
    assert found["webhook"] == {
        "url": "https://shop.example/hook",
        "method": "POST",
        "headers": {"X-Api-Key": "***"},
        "timeout": 5.0,
    }
    assert "hush" not in answer.text
    (pending,) = await app.list(schedule="ping")
    assert (found["next_id"], "progress" in found) == (pending.id, False)
    assert found["rule"] == {"every": "1234.567s"}
    again = {"rule": found["rule"], "target": json.loads('{"url": "https://shop.example/hook"}')}
    await client.put("/v1/schedules/same", json=again)
    both = [(await app.schedules.get(name)).rule for name in ("ping", "same")]
    assert both[0] == both[1]
