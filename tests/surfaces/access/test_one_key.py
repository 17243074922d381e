"""One Idempotency-Key at two servers in the same moment: whatever each says, it is made once.

DULY_TEST_ROUNDS says how often; a few times by default.
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
"""It stores after the other has refused."""


@pytest.mark.requirement("S2", "D1")
@pytest.mark.parametrize(
    "settings", [({}, {}), (NARROW, LATE)], ids=["both take it", "one refuses it"]
)
async def test_what_two_servers_are_asked_at_once_is_made_once(
    tmp_path: Path, postgres_url: str, settings: tuple[dict[str, str], ...]
) -> None:
    home = Home(tmp_path, postgres_url)
    with ExitStack() as running:
        urls = [
            running.enter_context(home.serving("--role", "api", environ=each)).url
            for each in settings
        ]
        async with asyncio.timeout(DEADLINE_SECONDS), httpx.AsyncClient() as client:
            ids = [await asked_of_both(client, urls, f"order-{n}") for n in range(ROUNDS)]
    async with home.app() as app:
        assert Counter(each.id for each in await app.list(limit=1000)) == Counter(ids)


async def asked_of_both(client: httpx.AsyncClient, urls: list[str], key: str) -> str:
    """Ask two at once, and when both have answered the one who takes it again; the id."""

    async def ask(url: str) -> httpx.Response:
        return await client.post(
            f"{url}/v1/deliveries", json=GIVEN, headers={"idempotency-key": key}
        )

    answers = [*await asyncio.gather(*map(ask, urls)), await ask(urls[1])]
    assert {each.status_code for each in answers} <= {201, 422}
    (id,) = {each.json()["id"] for each in answers if each.status_code == 201}
    return str(id)
