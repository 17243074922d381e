"""One delivery: its history, and the operations on it."""

from typing import Any

import msgspec
import pytest

import duly
from duly import App
from tests.http.conftest import Client

pytestmark = pytest.mark.requirement("S2")


async def step(app: App) -> None:
    engine = app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.step()


async def test_a_delivery_is_shown_with_attempts_steps_and_transitions(
    app: App, client: Client
) -> None:
    @app.handler("steps", retry=duly.no_retry)
    async def steps(delivery: Any) -> None:
        async with delivery.step("charge") as step:
            if not step.done:
                step.keep({"paid": 7})
        raise duly.Fail("no stock")

    id = (await app.deliver("steps", {"order": 1})).id
    await step(app)
    found = (await client.get(f"/v1/deliveries/{id}")).json()
    assert (found["state"], found["payload"], found["waits"]) == ("dead", {"order": 1}, None)
    (attempt,) = found["attempts"]
    assert (attempt["attempt"], attempt["outcome"], attempt["error"]) == (1, "dead", "no stock")
    assert attempt["traceback"].startswith("Traceback (most recent call last):\n")
    assert 'raise duly.Fail("no stock")' in attempt["traceback"]
    (done,) = found["steps"]
    assert (done["name"], done["result"]) == ("charge", {"paid": 7})
    moves = [(each["before"], each["after"], each["by"]) for each in found["transitions"]]
    assert moves == [(None, "pending", "accepted"), ("processing", "dead", "dead")]

    retried = await client.post(f"/v1/deliveries/{id}/retry")
    assert (retried.status_code, retried.json()["state"]) == (200, "pending")
    assert retried.json() == msgspec.json.decode(msgspec.json.encode(await app.get(id)))
    shown = (await client.get(f"/v1/deliveries/{id}")).json()
    assert shown["transitions"][-1]["by"] == "retried"


async def test_a_pending_delivery_is_cancelled_once(app: App, client: Client) -> None:
    id = (await app.deliver("work")).id
    first = await client.post(f"/v1/deliveries/{id}/cancel")
    assert (first.status_code, first.json()["state"]) == (200, "cancelled")
    second = await client.post(f"/v1/deliveries/{id}/cancel")
    assert (second.status_code, second.json()) == (200, first.json())


async def test_only_a_failed_head_is_released(app: App, client: Client) -> None:
    @app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Any) -> None:
        raise duly.Fail("no")

    head = (await app.deliver("fails", 1, stream="s")).id
    behind = (await app.deliver("fails", 2, stream="s")).id
    alone = (await app.deliver("fails", 3, after=3600)).id
    await step(app)
    waits = (await client.get(f"/v1/deliveries/{behind}")).json()["waits"]
    assert "stream s" in waits
    for id in (behind, alone):
        refused = await client.post(f"/v1/deliveries/{id}/release")
        assert refused.status_code == 409, refused.text
    done = await client.post(f"/v1/deliveries/{head}/release")
    assert (done.status_code, done.json()["state"]) == (200, "dead")
    assert (await app.streams.get("s")).state == "waiting"
