"""Under pressure: what cannot be taken now is said at once, and what was taken is kept."""

import asyncio

import pytest

from duly import App
from duly.domain.delivery import Request
from duly.surfaces.http.health import Pulse
from tests.api.conftest import Client, calling

pytestmark = pytest.mark.requirement("S2")


async def test_a_full_queue_is_429_and_loses_nothing(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with App(sqlite_url, accept_queue=5, environment={}) as app:
        app.expect("work")
        goes_on = asyncio.Event()
        accept = app.store.deliveries.accept

        async def slow(requests: list[Request]) -> object:
            await goes_on.wait()
            return await accept(requests)

        monkeypatch.setattr(app.store.deliveries, "accept", slow)
        async with calling(app, Pulse(app, app.engine())) as client:
            calls = [
                asyncio.create_task(client.post("/v1/deliveries", json={"target": "work"}))
                for _ in range(20)
            ]
            done, _ = await asyncio.wait(calls, timeout=0.5)
            goes_on.set()
            answers = [await each for each in calls]
        statuses = [each.status_code for each in answers]
        assert {each.result().status_code for each in done} == {429}
        assert answers[-1].headers["retry-after"] == "1"
        assert statuses.count(201) >= 5
        assert statuses.count(201) + statuses.count(429) == 20
        accepted = {each.json()["id"] for each in answers if each.status_code == 201}
        assert {each.id for each in await app.list()} == accepted


async def test_a_server_that_stops_says_so(app: App, client: Client, pulse: Pulse) -> None:
    pulse.stopping = True
    answer = await client.post("/v1/deliveries", json={"target": "work"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["content-type"] == "application/problem+json"
    assert await app.list() == []
