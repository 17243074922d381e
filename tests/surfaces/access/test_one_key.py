"""One Idempotency-Key at two servers at the same moment makes one delivery.

DULY_TEST_ROUNDS is the number of rounds.
"""

import asyncio
import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.surfaces.processes import DEADLINE_SECONDS, Home

pytestmark = pytest.mark.long

ROUNDS = int(os.environ.get("DULY_TEST_ROUNDS", "20"))
GIVEN = {"target": "log", "payload": "x" * 100, "after": 3600}
NARROW = {"DULY_PAYLOAD_LIMIT": "64"}
LATE = {"DULY_FAILPOINTS": "deliver.before=sleep:0.01"}
"""Store the delivery after the other server has refused it."""


@pytest.mark.requirement("S2", "D1")
@pytest.mark.parametrize("settings", [({}, {}), (NARROW, LATE)], ids=["both accept", "one refuses"])
async def test_a_key_at_two_servers_at_once_makes_one_delivery(
    tmp_path: Path, postgres_url: str, settings: tuple[dict[str, str], ...]
) -> None:
    home = Home(tmp_path, postgres_url)
    with ExitStack() as running:
        urls = [
            running.enter_context(home.serving("--role", "api", environ=each)).url
            for each in settings
        ]
        async with asyncio.timeout(DEADLINE_SECONDS), httpx.AsyncClient() as client:
            ids = [await deliver_to_both(client, urls, f"order-{n}") for n in range(ROUNDS)]
    async with home.app() as app:
        assert Counter(each.id for each in await app.list(limit=1000)) == Counter(ids)


async def deliver_to_both(client: httpx.AsyncClient, urls: list[str], key: str) -> str:
    """Send to both at once, then again to the one that accepts; returns the id."""

    async def post(url: str) -> httpx.Response:
        return await client.post(
            f"{url}/v1/deliveries", json=GIVEN, headers={"idempotency-key": key}
        )

    answers = [*await asyncio.gather(*map(post, urls)), await post(urls[1])]
    assert {each.status_code for each in answers} <= {201, 422}
    (id,) = {each.json()["id"] for each in answers if each.status_code == 201}
    return str(id)
