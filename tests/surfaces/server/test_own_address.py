"""Webhooks to the server's own port never arrive, whatever name of its address they use."""

import asyncio
from urllib.parse import urlsplit

import httpx
import pytest

from duly import App
from tests.surfaces.processes import DEADLINE_SECONDS, Home

ALLOWED = "127.0.0.0/8 0.0.0.0 ::1 localhost"
HOSTS = ("127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]")
EVIL = {"name": "evil", "scope": "admin"}


@pytest.mark.requirement("X3", "C7")
async def test_no_webhook_reaches_the_server_that_sends_it(home: Home) -> None:
    allowed = {"DULY_EGRESS_ALLOW": ALLOWED}
    with home.serving(environ=allowed) as server:
        hooks = [f"http://{each}:{urlsplit(server.url).port}/v1/keys" for each in HOSTS]
        token = await add_endpoints(home, hooks)
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            httpx.AsyncClient(
                base_url=f"{server.url}/v1", headers={"authorization": f"Bearer {token}"}
            ) as client,
        ):
            for name, hook in enumerate(hooks):
                plain = await client.post("/deliveries", json={"target": {"url": hook}})
                assert plain.status_code == 422, hook
                assert "this server's own address" in plain.text
                tried = await client.post(f"/endpoints/e{name}/test", json={"payload": EVIL})
                assert "this server's own address" in str(tried.json()["error"]), tried.text
                sent = {"target": {"endpoint": f"e{name}"}, "payload": EVIL}
                id = (await client.post("/deliveries", json=sent)).json()["id"]
                while (found := (await client.get(f"/deliveries/{id}")).json())["state"] != "dead":
                    assert found["state"] in ("pending", "processing"), (hook, found)
                (attempt,) = found["attempts"]
                assert "this server's own address" in attempt["error"]
    async with home.app() as app:
        assert await app.keys.list() == []


async def add_endpoints(home: Home, hooks: list[str]) -> str:
    """Make endpoints and a key in another namespace, from a process that is not the server."""
    app = App(home.database, namespace="two", egress_allow=ALLOWED, environment={})
    async with app:
        for name, hook in enumerate(hooks):
            await app.endpoints.add(f"e{name}", hook)
        return (await app.keys.create("theirs", scope="operate")).token
