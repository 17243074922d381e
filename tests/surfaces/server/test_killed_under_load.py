"""A real server under load that is killed and stopped: each accepted delivery exists once."""

import asyncio
import signal
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.support.postgres import free_port
from tests.surfaces.processes import DEADLINE_SECONDS, Home

CALLERS, EACH = 8, 30


class Callers:
    """Clients that repeat each delivery with the same key until it is accepted."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.accepted: dict[str, str] = {}
        self.turned_away = Counter[int]()
        self.half_way = asyncio.Event()
        self.go_on = asyncio.Event()
        self.served = asyncio.Event()

    async def run(self) -> None:
        """Send them all."""
        async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as group:
            for caller in range(CALLERS):
                group.create_task(self._call(caller))

    async def _call(self, caller: int) -> None:
        async with httpx.AsyncClient(base_url=self._url, timeout=10) as client:
            for n in range(EACH):
                key = f"{caller}-{n}"
                self.accepted[key] = await self._accepted(client, key)
                if len(self.accepted) >= CALLERS * EACH // 2:
                    self.half_way.set()
                    # The other half is sent to a server that is being stopped.
                    await self.go_on.wait()

    async def _accepted(self, client: httpx.AsyncClient, key: str) -> str:
        given = {"target": "log", "payload": key, "after": 3600}
        while True:
            try:
                answer = await client.post(
                    "/v1/deliveries", json=given, headers={"idempotency-key": key}
                )
            except httpx.TransportError:
                await self.served.wait()
                continue
            if answer.status_code == 201:
                return str(answer.json()["id"])
            self.turned_away[answer.status_code] += 1


@pytest.mark.requirement("S2", "D1")
async def test_a_server_that_is_killed_and_stopped_loses_and_repeats_nothing(home: Home) -> None:
    port = str(free_port())
    callers = Callers(f"http://127.0.0.1:{port}")
    killed = {"DULY_FAILPOINTS": "deliver.after=kill@10"}
    with home.running("serve", "--port", port, environ=killed) as first:
        await asyncio.to_thread(first.wait_for, "Serving")
        callers.served.set()
        load = asyncio.create_task(callers.run())
        assert await asyncio.to_thread(first.end) == -signal.SIGKILL
    callers.served.clear()
    assert callers.accepted
    with home.running("serve", "--port", port) as second:
        await asyncio.to_thread(second.wait_for, "Serving")
        callers.served.set()
        await asyncio.wait_for(callers.half_way.wait(), DEADLINE_SECONDS)
        second.signal(signal.SIGTERM)
        callers.served.clear()
        callers.go_on.set()
        assert await asyncio.to_thread(second.end) == 0
    with home.running("serve", "--port", port) as third:
        await asyncio.to_thread(third.wait_for, "Serving")
        callers.served.set()
        await load
    assert set(callers.turned_away) <= {503}
    await _assert_once(home, callers.accepted)


async def _assert_once(home: Home, accepted: dict[str, str]) -> None:
    async with home.app() as app:
        stored: list[Any] = list(await app.list(limit=10_000))
    assert {each.id for each in stored} >= set(accepted.values())
    assert len(stored) == len(accepted) == CALLERS * EACH
