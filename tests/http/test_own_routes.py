"""Routes of the app itself, of Starlette or any ASGI application, with the same authentication."""

from collections.abc import AsyncIterator

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from duly import App
from duly.surfaces.http.protocol.responses import Receive, Scope, Send, send_answer
from duly.testing import VirtualClock
from tests.http.ports import Port

pytestmark = pytest.mark.requirement("S2")


async def echo(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.path_params['name']}: {(await request.body()).decode()}")


async def refuse(_request: Request) -> PlainTextResponse:
    raise HTTPException(418, "no coffee here")


async def fail(_request: Request) -> PlainTextResponse:
    raise RuntimeError("oops")


async def bare(scope: Scope, _receive: Receive, send: Send) -> None:
    place = scope["path"].removeprefix(scope["root_path"])
    await send_answer(send, 200, {"content-type": "text/plain"}, place.encode())


@pytest.fixture
async def here(sqlite_url: str, clock: VirtualClock) -> AsyncIterator[Port]:
    async with App(sqlite_url, clock=clock, host="0.0.0.0", environment={}) as app:
        app.routes += [
            Route("/echo/{name}", echo, methods=["POST"]),
            Route("/refuse", refuse),
            Route("/fail", fail),
            Mount("/inside", app=bare),
        ]
        yield Port(app)


async def test_own_routes_need_a_key_like_all_others(here: Port) -> None:
    read, operate = await here.token("read"), await here.token("operate")
    assert await here.status("/echo/ann", "POST") == 401
    assert await here.status("/echo/ann", "POST", key=read) == 403
    answer = await here.request("/echo/ann", "POST", key=operate, content=b"hello")
    assert (answer.status_code, answer.text) == (200, "ann: hello")
    assert await here.status("/inside/a/b") == 401
    assert (await here.request("/inside/a/b", key=read)).text == "/a/b"


async def test_errors_of_own_routes_are_problems(here: Port) -> None:
    key = await here.token("operate")
    for path, method, status in (
        ("/refuse", "GET", 418),
        ("/fail", "GET", 500),
        ("/echo/ann", "GET", 405),
        ("/elsewhere", "GET", 404),
    ):
        answer = await here.request(path, method, key=key)
        assert answer.headers["content-type"] == "application/problem+json", path
        assert (answer.status_code, answer.json()["status"]) == (status, status)


async def test_an_application_without_a_path_gets_all_other_paths(here: Port) -> None:
    here.app.routes.append(bare)
    there, key = Port(here.app), await here.token("read")
    assert (await there.request("/anything/else", key=key)).text == "/anything/else"
    assert (await there.request("/", key=key)).text == "/"
    assert await there.status("/v1/workers", key=key) == 200
