"""A tenant with its own key, at a server that has no setting for it."""

import asyncio

import httpx
import pytest

from tests.surfaces.processes import DEADLINE_SECONDS, Home


@pytest.mark.requirement("D1", "S2")
async def test_deliveries_and_schedules_of_a_tenant_run(home: Home) -> None:
    allowed = {"DULY_EGRESS_ALLOW": "127.0.0.1"}
    with home.serving(environ=allowed) as server, home.listening() as receiver:
        token = home.json("keys", "create", "theirs", "--scope", "operate", "--namespace", "two")[
            "token"
        ]
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            httpx.AsyncClient(
                base_url=f"{server.url}/v1", headers={"authorization": f"Bearer {token}"}
            ) as client,
        ):
            handled = await client.post("/deliveries", json={"target": "log", "payload": 1})
            assert handled.status_code == 201
            await ended(client, handled.json()["id"])
            rule = {"rule": {"every": "1s"}, "target": "log", "max_runs": 2}
            assert (await client.put("/schedules/tick", json=rule)).status_code == 201
            while len((await client.get("/deliveries?state=completed")).json()["items"]) < 3:
                pass
            (worker,) = (await client.get("/workers")).json()["items"]
            assert worker["namespaces"] == ["*"]
            sent = await client.post("/deliveries", json={"target": {"url": receiver.url}})
            await ended(client, sent.json()["id"])
        (shown,) = home.json("workers")["items"]
        assert shown["namespaces"] == ["*"]
        assert home.json("deliveries", "list")["items"] == [], "the server's own namespace has none"


async def ended(client: httpx.AsyncClient, id: str) -> None:
    """Wait until a delivery is completed."""
    while (await client.get(f"/deliveries/{id}")).json()["state"] != "completed":
        pass
