"""Streams of events at their edges: who cannot be heard, and how they end when the server does."""

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


async def test_one_too_many_is_told_so(
    small_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_LISTENERS", 0)
    answer = await small_client.get("/v1/events")
    assert (answer.status_code, answer.json()["title"]) == (429, "Too Many Requests")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.requirement("D13")
async def test_what_failed_before_does_not_hinder_a_stop(small_app: App) -> None:
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


async def test_a_failure_ends_the_streams_and_the_next_one_may_listen(small_app: App) -> None:
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
            heard = await heard_until_stopped(port, key)
        await port.stop()
    assert any(each.startswith("data: ") for each in heard)


async def heard_until_stopped(port: HttpPort, key: str) -> list[str]:
    """What somebody hears who listens while the server stops; a stream that is torn raises."""
    heard: list[str] = []
    async with AsyncClient(headers={"authorization": f"Bearer {key}"}) as client:
        # A number that was never ours is passed over.
        odd = {"last-event-id": "9" * 5000}
        async with client.stream("GET", f"{port.url}/v1/events", headers=odd) as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if not heard:
                    await port.stopping()
                heard.append(line)
    return heard
