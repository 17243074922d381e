"""Event streams: their limit, failures, and how they end with the server."""

import asyncio

import pytest
from httpx import AsyncClient

from duly import App
from duly.records.status import NamespaceStatus
from duly.services.monitoring import live
from duly.surfaces.http.port import HttpPort
from duly.testing import VirtualClock
from tests.http.conftest import Client

pytestmark = pytest.mark.requirement("S3")


async def test_one_stream_too_many_is_refused(
    small_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_LISTENERS", 0)
    answer = await small_client.get("/v1/events")
    assert (answer.status_code, answer.json()["title"]) == (429, "Too Many Requests")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.requirement("D13")
async def test_a_failed_stream_does_not_prevent_a_stop(small_app: App) -> None:
    async def broken() -> None:
        raise ValueError("no")

    found = live.Live(small_app.store, broken, small_app.clock)  # type: ignore[arg-type]
    listening = asyncio.create_task(anext(found.listen(), None))  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        while found._task is None or not found._task.done():
            await asyncio.tasks.sleep(0)
    task = found._task
    await found.stop()
    assert await listening is None
    assert isinstance(task.exception(), ValueError)


async def test_a_failure_ends_the_streams_and_a_new_one_can_start(small_app: App) -> None:
    broken = True

    async def look() -> NamespaceStatus:
        if broken:
            raise ValueError("no")
        return await small_app.stats.namespace_status()

    found = live.Live(small_app.store, look, small_app.clock)
    async with asyncio.timeout(10):
        assert [each async for each in found.listen()] == []
        broken = False
        assert (await anext(found.listen())).workers == 0
    await found.stop()


@pytest.mark.requirement("D13")
@pytest.mark.parametrize("namespace", ["default", "other"])
async def test_a_stop_ends_the_streams_of_every_namespace(
    sqlite_url: str, clock: VirtualClock, namespace: str
) -> None:
    async with App(sqlite_url, clock=clock, environment={}, port=0) as app:
        key = (await app.within(namespace).keys.create("board")).token
        port = await HttpPort.of(app, app.engine())
        await port.start(lambda: None)
        async with asyncio.timeout(20):
            lines = await lines_until_stopped(port, key)
        await port.stop()
    assert any(each.startswith("data: ") for each in lines)


async def lines_until_stopped(port: HttpPort, key: str) -> list[str]:
    """The lines of a stream while the server stops; raises if the stream is cut off."""
    lines: list[str] = []
    async with AsyncClient(headers={"authorization": f"Bearer {key}"}) as client:
        # An unknown event id is ignored.
        odd = {"last-event-id": "9" * 5000}
        async with client.stream("GET", f"{port.url}/v1/events", headers=odd) as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if not lines:
                    await port.stopping()
                lines.append(line)
    return lines
