"""While a handler holds SQLite's writer, whoever only reads is answered all the same."""

import asyncio
from contextvars import Context

import pytest

from duly import App
from tests.http.conftest import Client

SPEC = {"rule": {"every": "1h"}, "target": "work"}
PATHS = (
    *("deliveries", "deliveries?stream=line", "deliveries?schedule=hourly", "deliveries/{id}"),
    *("schedules", "schedules/hourly", "schedules/hourly/preview", "endpoints", "endpoints/hook"),
    *("streams", "streams/line", "dead-letters", "dead-letters/groups", "workers", "keys", "audit"),
    *("stats", "stats/series", "alerts"),
)


@pytest.mark.requirement("S2", "S3")
async def test_who_only_reads_waits_for_nobody_who_writes(
    small_app: App, small_client: Client
) -> None:
    client = small_client
    await client.put("/v1/schedules/hourly", json=SPEC)
    await client.post("/v1/endpoints", json={"name": "hook", "url": "https://example.org/"})
    await client.post("/v1/deliveries", json={"target": "work", "stream": "line"})
    id = (await client.post("/v1/deliveries", json={"target": "work"})).json()["id"]
    key = (await small_app.keys.create("board")).token
    asked = [f"/v1/{path.format(id=id)}" for path in PATHS]
    asked += ["/metrics", "/health?verbose=true"]
    async with small_app.transaction() as transaction:
        await transaction.execute("create table held (it integer)")
        # They are others: who holds it may not write beside it.
        others = asyncio.create_task(_asked(client, asked, key), context=Context())
        statuses = await others
    assert set(statuses.values()) == {200}, statuses
    async with asyncio.timeout(10):
        while (await small_app.keys.list())[0].last_used_at is None:
            pass  # noted as soon as it can be


async def _asked(client: Client, paths: list[str], key: str) -> dict[str, int]:
    """How each is answered, without a key and then one of them with it."""
    statuses = {}
    async with asyncio.timeout(60):
        for path in paths:
            statuses[path] = (await client.get(path)).status_code
        keyed = await client.get("/v1/workers", headers={"authorization": f"Bearer {key}"})
        statuses["with a key"] = keyed.status_code
    return statuses
