"""While the database is down, health, readiness and metrics report it, and the process runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from duly import App
from duly.surfaces.http.application import site
from duly.surfaces.http.monitoring.health import ProcessHealth
from tests.support.postgres import Server

pytestmark = [pytest.mark.requirement("S3", "D12"), pytest.mark.timeout(120)]
SILENT = {"/v1/status", "/v1/stats", "/v1/workers", "/v1/alerts", "/v1/deliveries/late"}
DEADLINE_SECONDS = 30


@pytest.fixture
async def process_health(own_postgres: Server) -> AsyncIterator[ProcessHealth]:
    url = await own_postgres.create_database("away")
    async with App(url, environment={}) as app:
        found = ProcessHealth(app, app.engine())
        await found.engine.start()
        yield found
        await found.engine.stop()


@pytest.fixture
async def client(process_health: ProcessHealth) -> AsyncIterator[AsyncClient]:
    transport = ASGITransport(site(process_health.app, process_health), raise_app_exceptions=False)
    async with AsyncClient(transport=transport, base_url="http://127.0.0.1") as found:
        yield found


async def until(client: AsyncClient, path: str, wanted: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            found = await client.get(path)
            if wanted(found):
                return found


async def test_a_database_that_is_down_is_reported_everywhere(
    client: AsyncClient, own_postgres: Server
) -> None:
    await until(client, "/ready", lambda found: found.status_code == 200)
    verbose = await until(client, "/health?verbose=true", lambda found: found.status_code == 200)
    assert verbose.json()["status"] == "ok"
    own_postgres.stop("immediate")
    ready = await until(client, "/ready", lambda found: found.status_code != 200)
    assert (ready.status_code, ready.json()) == (
        503,
        {"ready": False, "reason": "the store does not answer"},
    )
    verbose = await client.get("/health?verbose=true")
    assert (verbose.status_code, verbose.json()["status"]) == (503, "store_unavailable")
    assert verbose.json()["store"]["reachable"] is False
    alive = await client.get("/health")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
    assert "duly_store_up 0.0" in (await client.get("/metrics")).text
    for path in SILENT:
        assert (await client.get(path)).status_code == 503, path
    own_postgres.start()
    await until(client, "/ready", lambda found: found.status_code == 200)
    await until(client, "/health?verbose=true", lambda found: found.json()["status"] == "ok")
