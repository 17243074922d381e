"""`app.asgi()`: the same API mounted at a path of another application."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from duly import App
from duly.testing import VirtualClock
from tests.http.conftest import Client

pytestmark = pytest.mark.requirement("S2")
ANN = {"x-user": "ann"}


async def authorize(scope: Any) -> str | None:
    """The scopes of the host's users."""
    return {b"ann": "operate", b"bob": "read"}.get(dict(scope["headers"]).get(b"x-user", b""))


@pytest.fixture
async def app(sqlite_url: str, clock: VirtualClock) -> AsyncIterator[App]:
    app = App(sqlite_url, clock=clock, environment={})
    app.expect("work")
    async with app:
        yield app


@pytest.fixture
async def host(app: App) -> AsyncIterator[Client]:
    around = FastAPI()
    around.mount("/jobs", app.asgi(authorize=authorize))
    around.mount("/by-key", app.asgi())
    async with AsyncClient(transport=ASGITransport(around), base_url="http://shop.example") as it:
        yield it


async def test_a_delivery_is_accepted_and_found_at_its_location(host: Client) -> None:
    new = await host.post("/jobs/v1/deliveries", json={"target": "work"}, headers=ANN)
    assert new.status_code == 201, new.text
    assert new.headers["location"] == f"/jobs/v1/deliveries/{new.json()['id']}"
    assert (await host.get(new.headers["location"], headers=ANN)).json()["id"] == new.json()["id"]


async def test_names_may_have_slashes_and_unknown_paths_are_problems(
    app: App, host: Client
) -> None:
    await app.endpoints.add("a/b", "https://hook.invalid/")
    found = await host.get("/jobs/v1/endpoints/a%2Fb", headers=ANN)
    assert found.json()["name"] == "a/b"
    for path in ("/jobs/v1/nothing", "/jobs/nothing", "/jobs/v1/endpoints/a/b"):
        answer = await host.get(path, headers=ANN)
        assert (answer.status_code, answer.json()["status"]) == (404, 404)


async def test_users_of_the_host_have_its_scopes_and_others_need_a_key(
    app: App, host: Client
) -> None:
    assert (await host.get("/jobs/v1/workers")).status_code == 401
    assert (await host.get("/by-key/v1/workers", headers=ANN)).status_code == 401
    bob = {"x-user": "bob"}
    assert (await host.get("/jobs/v1/workers", headers=bob)).status_code == 200
    refused = await host.post("/jobs/v1/deliveries", json={"target": "work"}, headers=bob)
    assert refused.status_code == 403
    key = {"authorization": f"Bearer {(await app.keys.create('ops')).token}"}
    for at in ("/jobs", "/by-key"):
        assert (await host.get(f"{at}/v1/workers", headers=key)).status_code == 200
    foreign = ANN | {"origin": "https://evil.example"}
    answer = await host.post("/jobs/v1/deliveries", json={"target": "work"}, headers=foreign)
    assert answer.status_code == 403


async def test_the_openapi_document_has_the_mount_path(host: Client) -> None:
    document = (await host.get("/jobs/openapi.json")).json()
    assert document["servers"][0]["url"] == "./"
    assert "/v1/deliveries" in document["paths"]
    assert 'fetch("openapi.json")' in (await host.get("/jobs/docs")).text


@pytest.mark.requirement("S5")
async def test_the_dashboard_is_there_if_the_host_wants_it(app: App) -> None:
    around = FastAPI()
    around.mount("/admin/duly", app.asgi(authorize=authorize, dashboard=True))
    around.mount("/plain", app.asgi(authorize=authorize))
    async with AsyncClient(transport=ASGITransport(around), base_url="http://shop.example") as it:
        moved = await it.get("/admin/duly")
        assert (moved.status_code, moved.headers["location"][-12:]) == (307, "/admin/duly/")
        page = await it.get("/admin/duly/")
        assert page.status_code == 200
        assert "script-src 'self'" in page.headers["content-security-policy"]
        script = await it.get("/admin/duly/dashboard/app.js")
        assert script.headers["content-type"].startswith("text/javascript")
        again = {"if-none-match": script.headers["etag"]}
        assert (await it.get("/admin/duly/dashboard/app.js", headers=again)).status_code == 304
        assert (await it.get("/plain/", headers=ANN)).status_code == 404
