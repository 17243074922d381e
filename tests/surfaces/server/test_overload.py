"""More callers than a real server accepts: some are refused, and each gets a true answer."""

import asyncio
import signal
import time
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.surfaces.processes import DEADLINE_SECONDS, Home

SHOP = """
import os, duly
app = duly.App()
noted = os.open("noted", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@app.handler("note")
async def note(delivery):
    os.write(noted, f"{delivery.id}\\n".encode())
"""
CALLERS, PLACES, EACH = 32, 4, 3
SLOW = {"DULY_ACCEPT_QUEUE": str(PLACES), "DULY_FAILPOINTS": "deliver.before=sleep:0.01"}


class Callers:
    """Half of them give up when they are refused, half repeat the request with the same key."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.accepted: dict[str, str] = {}
        self.refused: list[httpx.Response] = []

    async def run(self) -> None:
        """Send all deliveries, many at once."""
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            httpx.AsyncClient(base_url=self._url, timeout=DEADLINE_SECONDS) as client,
        ):
            await asyncio.gather(*(self._call(client, number) for number in range(CALLERS)))

    async def _call(self, client: httpx.AsyncClient, number: int) -> None:
        for n in range(EACH):
            name = f"{number}-{n}"
            headers = {"idempotency-key": name} if number % 2 else {}
            while not await self._is_taken(client, name, headers) and headers:
                pass

    async def _is_taken(self, client: httpx.AsyncClient, name: str, headers: Any) -> bool:
        given = {"target": "note", "payload": name}
        answer = await client.post("/v1/deliveries", json=given, headers=headers)
        if answer.status_code == 201:
            self.accepted[name] = answer.json()["id"]
            return True
        self.refused.append(answer)
        return False


@pytest.mark.requirement("S2", "D1")
async def test_an_overloaded_server_refuses_some_and_stores_exactly_what_it_accepted(
    home: Home,
) -> None:
    home.write("shop.py", SHOP)
    with home.serving("shop:app", environ=SLOW) as server:
        callers = Callers(server.url)
        await callers.run()
        await asyncio.to_thread(until_noted, home, len(callers.accepted))
        server.signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.end) == 0
    assert {each.status_code for each in callers.refused} == {429}
    assert {each.headers["retry-after"] for each in callers.refused} == {"1"}
    assert {each.headers["content-type"] for each in callers.refused} == {
        "application/problem+json"
    }
    patient = {f"{number}-{n}" for number in range(1, CALLERS, 2) for n in range(EACH)}
    assert callers.accepted.keys() > patient
    async with home.app() as app:
        stored = list(await app.list(limit=1000))
    assert {each.id: each.payload for each in stored} == {
        id: name for name, id in callers.accepted.items()
    }
    assert len(stored) == len(callers.accepted)
    assert {each.state for each in stored} == {"completed"}
    assert Counter(noted(home)) == Counter(callers.accepted.values())


def until_noted(home: Home, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(noted(home)) < count:
        assert time.monotonic() < deadline, "some accepted deliveries were not handled"


def noted(home: Home) -> list[str]:
    return (home.folder / "noted").read_text().split()
