"""Backpressure: requests that cannot be accepted now are refused at once, and none is lost."""

import asyncio
from collections.abc import Callable

import pytest

from duly import App
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.ports import IdempotentRequest
from duly.surfaces.http.monitoring.health import ProcessHealth
from tests.http.conftest import Client, calling

pytestmark = pytest.mark.requirement("S2")


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"])
async def test_a_full_queue_is_429_and_loses_nothing(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """With any spelling of the media type."""
    new = {"content": b'{"target": "work"}', "headers": {"content-type": kind}}
    async with App(sqlite_url, accept_queue=5, environment={}) as app:
        app.expect("work")
        goes_on = held_back(app, monkeypatch)
        async with calling(app, ProcessHealth(app, app.engine())) as client:
            calls = [asyncio.create_task(client.post("/v1/deliveries", **new)) for _ in range(20)]
            done, _ = await asyncio.wait(calls, timeout=0.5)
            # The body is not read, and other routes are not full.
            unread = await client.post("/v1/deliveries", content=b"{")
            assert (unread.status_code, unread.json()["status"]) == (429, 429)
            assert (await client.get("/v1/deliveries")).status_code == 200
            goes_on.set()
            answers = [await each for each in calls]
        statuses = [each.status_code for each in answers]
        assert {each.result().status_code for each in done} == {429}
        assert answers[-1].headers["retry-after"] == "1"
        assert statuses.count(201) >= 5
        assert statuses.count(201) + statuses.count(429) == 20
        accepted = {each.json()["id"] for each in answers if each.status_code == 201}
        assert {each.id for each in await app.list()} == accepted


async def test_a_request_with_a_key_is_refused_before_the_key_is_recorded(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with App(sqlite_url, accept_queue=16, environment={}) as app:
        app.expect("work")
        goes_on, noted = held_back(app, monkeypatch), list[str]()
        begin = app.store.idempotency.begin

        async def record(asked: IdempotentRequest) -> IdempotentRequest | None:
            noted.append(asked.key)
            return await begin(asked)

        monkeypatch.setattr(app.store.idempotency, "begin", record)
        async with (
            calling(app, ProcessHealth(app, app.engine())) as client,
            asyncio.TaskGroup() as calls,
        ):
            for n in range(15):
                key = {"idempotency-key": f"one of many {n}"}
                call = client.post("/v1/deliveries", json={"target": "work"}, headers=key)
                calls.create_task(call)
            await until(lambda: len(noted) == 15)
            # One place is free, and a bulk takes two.
            given, key = [{"target": "work"}], {"idempotency-key": "many in one"}
            bulk = await client.post("/v1/deliveries/bulk", json=given, headers=key)
            assert bulk.status_code == 429
            goes_on.set()
        assert len(noted) == 15
        assert len(await app.list()) == 15


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - other tasks run meanwhile
            await asyncio.sleep(0)


def held_back(app: App, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Store nothing until the event is set."""
    goes_on = asyncio.Event()
    accept = app.store.deliveries.accept

    async def slow(requests: list[PreparedDelivery]) -> object:
        await goes_on.wait()
        return await accept(requests)

    monkeypatch.setattr(app.store.deliveries, "accept", slow)
    return goes_on


async def test_a_stopping_server_answers_503(
    app: App, client: Client, process_health: ProcessHealth
) -> None:
    process_health.stopping = True
    answer = await client.post("/v1/deliveries", json={"target": "work"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["content-type"] == "application/problem+json"
    assert await app.list() == []
