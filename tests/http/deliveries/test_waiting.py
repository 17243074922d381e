"""`GET /v1/deliveries/{id}?wait=30s`: the answer comes when the delivery has ended."""

import asyncio
import signal
from pathlib import Path

import httpx
import pytest

import duly
from duly import App
from duly.testing import run_until_idle
from tests.http.conftest import Client
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("P3")

APP = """
import asyncio
import duly

app = duly.App()

@app.handler("double")
async def double(number: int) -> int:
    return number * 2

@app.handler("fail", retry=duly.no_retry)
async def fail() -> None:
    raise RuntimeError("no")

@app.handler("hang")
async def hang() -> None:
    await asyncio.Event().wait()
"""


async def test_the_result_and_the_exception_are_shown(app: App, client: Client) -> None:
    app.handler("double")(lambda delivery: delivery.payload * 2)
    app.handler("fail", retry=duly.no_retry)(lambda delivery: delivery.payload / 0)
    double, fail = await app.deliver("double", 6), await app.deliver("fail", 1)
    await run_until_idle(app)

    found = (await client.get(f"/v1/deliveries/{double.id}", params={"wait": "30s"})).json()
    assert (found["state"], found["result"]) == ("completed", 12)
    assert found["attempts"][0]["result"] == 12
    failed = (await client.get(f"/v1/deliveries/{fail.id}", params={"wait": "30s"})).json()
    assert (failed["state"], failed["result"]) == ("dead", None)
    assert failed["attempts"][0]["exception"] == "ZeroDivisionError"
    assert "ZeroDivisionError: division by zero" in failed["attempts"][0]["traceback"]


@pytest.mark.parametrize(
    ("wait", "problem"),
    [("61s", "give up to 60s"), ("soon", "is no duration"), ("30", "is no duration")],
)
async def test_a_bad_wait_is_refused(
    small_app: App, small_client: Client, wait: str, problem: str
) -> None:
    id = (await small_app.deliver("work")).id
    answer = await small_client.get(f"/v1/deliveries/{id}", params={"wait": wait})
    assert answer.status_code == 422
    assert problem in answer.json()["detail"]


async def test_a_client_waits_like_an_app(tmp_path: Path, database_url: str) -> None:
    home = Home(tmp_path, database_url)
    home.write("shop.py", APP)
    with home.serving("shop:app") as server:
        async with duly.Client(server.url) as client:
            handles = [await client.deliver("double", {"number": n}) for n in range(20)]
            found = await asyncio.gather(*(each.result(timeout=60) for each in handles))
            assert found == [n * 2 for n in range(20)]

            failing = await client.deliver("fail")
            with pytest.raises(duly.DeliveryFailed, match="RuntimeError: no") as info:
                await client.deliveries.wait(failing.id, timeout=60)
            assert info.value.delivery.attempts[0].exception == "RuntimeError"

            hanging = await client.deliver("hang")
            with pytest.raises(duly.NotEnded):
                await hanging.wait(timeout=0.1)


async def test_a_server_that_stops_answers_those_who_wait(tmp_path: Path, sqlite_url: str) -> None:
    home = Home(tmp_path, sqlite_url)
    home.write("shop.py", APP)
    with home.serving("shop:app") as server:
        host, port = server.url.removeprefix("http://").split(":")
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
            given = {"target": "double", "payload": {"number": 1}, "after": 3600}
            id = (await client.post("/v1/deliveries", json=given)).json()["id"]
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                f"GET /v1/deliveries/{id}?wait=60s HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
            )
            # Answered when the request above was received.
            await client.get(f"/v1/deliveries/{id}")
        server.signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            answer = await reader.read()
        writer.close()
    assert b'"state":"pending"' in answer


async def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(
    tmp_path: Path, sqlite_url: str
) -> None:
    home = Home(tmp_path, sqlite_url)
    home.write("shop.py", APP)
    with home.serving("shop:app") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=0.2) as client:
            given = {"target": "double", "payload": {"number": 1}, "after": 3600}
            id = (await client.post("/v1/deliveries", json=given)).json()["id"]
            with pytest.raises(httpx.ReadTimeout):
                await client.get(f"/v1/deliveries/{id}?wait=60s")
            assert (await client.get(f"/v1/deliveries/{id}")).json()["state"] == "pending"
        server.signal(signal.SIGTERM)
        assert server.end() == 0
        assert "Traceback" not in "".join(server.log)
