"""Reading requests are answered while a handler holds SQLite's writer."""

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
async def test_reading_requests_do_not_wait_for_a_writer(
    small_app: App, small_client: Client
) -> None:
    client = small_client
    await client.put("/v1/schedules/hourly", json=SPEC)
    await client.post("/v1/endpoints", json={"name": "hook", "url": "https://example.org/"})
    await client.post("/v1/deliveries", json={"target": "work", "stream": "line"})
    id = (await client.post("/v1/deliveries", json={"target": "work"})).json()["id"]
    key = (await small_app.keys.create("board")).token
    paths_read = [f"/v1/{path.format(id=id)}" for path in PATHS]
    paths_read += ["/metrics", "/health?verbose=true"]
    async with small_app.transaction() as transaction:
        await transaction.execute("create table held (it integer)")
        # In another context: the task that holds the writer may not write outside its transaction.
        others = asyncio.create_task(_statuses(client, paths_read, key), context=Context())
        statuses = await others
    assert set(statuses.values()) == {200}, statuses
    async with asyncio.timeout(10):
        while (await small_app.keys.list())[0].last_used_at is None:
            pass  # recorded when the writer is free


async def _statuses(client: Client, paths: list[str], key: str) -> dict[str, int]:
    """The statuses of the paths without a key, and then of one of them with the key."""
    statuses = {}
    async with asyncio.timeout(60):
        for path in paths:
            statuses[path] = (await client.get(path)).status_code
        keyed = await client.get("/v1/workers", headers={"authorization": f"Bearer {key}"})
        statuses["with a key"] = keyed.status_code
    return statuses
