"""Slow bodies do not block other requests, and use a bounded amount of memory."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duly import App
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.surfaces.http.protocol import backpressure
from tests.http.conftest import Client, calling
from tests.http.protocol.test_backpressure import until

pytestmark = pytest.mark.requirement("S2", "X1")

BULK, SINGLE = "/v1/deliveries/bulk", "/v1/deliveries"
QUEUE = 8


class Trickle:
    """Bodies whose first part has arrived, and whose last part arrives after an event."""

    def __init__(self) -> None:
        self.waiting = 0
        self.goes_on = asyncio.Event()

    async def of(self, first: bytes, last: bytes) -> AsyncIterator[bytes]:
        yield first
        self.waiting += 1
        await self.goes_on.wait()
        yield last


@pytest.mark.parametrize(
    ("path", "first", "last", "status"),
    [(BULK, b'[{"target": ', b'"work"}]', 200), (SINGLE, b'{"target": ', b'"work"}', 201)],
)
@pytest.mark.parametrize("with_key", [False, True])
async def test_a_body_that_is_still_arriving_takes_no_place_in_the_queue(
    database_url: str, path: str, first: bytes, last: bytes, status: int, with_key: bool
) -> None:
    async with App(database_url, accept_queue=QUEUE, environment={}) as app:
        app.expect("work")
        trickle = Trickle()
        async with (
            calling(app, ProcessHealth(app, app.engine())) as client,
            asyncio.TaskGroup() as group,
        ):
            calls = [
                group.create_task(
                    client.post(path, content=trickle.of(first, last), headers=key(n, with_key))
                )
                for n in range(QUEUE)
            ]
            await until(lambda: trickle.waiting == QUEUE)
            plain = await client.post(SINGLE, json={"target": "work"})
            bulk = await client.post(BULK, json=[{"target": "work"}], headers=key(-1, with_key))
            trickle.goes_on.set()
            statuses = [(await each).status_code for each in calls]
        assert (plain.status_code, bulk.status_code) == (201, 200)
        # All bodies are complete at the same time, so some may find the queue full.
        assert set(statuses) <= {status, 429}
        assert status in statuses


def key(number: int, with_key: bool) -> dict[str, str]:
    return {"idempotency-key": f"one of many {number}"} if with_key else {}


@pytest.mark.parametrize("with_key", [False, True])
async def test_the_memory_of_arriving_bodies_is_bounded_for_each_caller_and_in_total(
    app: App, monkeypatch: pytest.MonkeyPatch, with_key: bool
) -> None:
    monkeypatch.setattr(backpressure, "ARRIVING_BYTES", 3000)
    monkeypatch.setattr(backpressure, "CALLER_BYTES", 2000)
    tokens = [(await app.keys.create(f"caller {n}", scope="operate")).token for n in range(3)]
    app.expect("work")
    first, last = b"[" + b" " * 1400, b'{"target": "work"}]'
    trickle = Trickle()

    async def send(client: Client, caller: int, number: int) -> Any:
        headers = key(number, with_key) | {"authorization": f"Bearer {tokens[caller]}"}
        return await client.post(BULK, content=trickle.of(first, last), headers=headers)

    async with (
        calling(app, ProcessHealth(app, app.engine())) as client,
        asyncio.TaskGroup() as group,
    ):
        held = [group.create_task(send(client, 0, 1))]
        await until(lambda: trickle.waiting == 1)
        refused = await send(client, 0, 2)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        held.append(group.create_task(send(client, 1, 3)))
        await until(lambda: trickle.waiting == 2)
        assert (await send(client, 2, 4)).status_code == 429
        trickle.goes_on.set()
        assert [(await each).status_code for each in held] == [200, 200]
        # Finished requests use no memory.
        assert [(await send(client, n, 5 + n)).status_code for n in range(3)] == [200] * 3
