"""Many event streams at once: up to the limit they get 200, the others 429."""

import asyncio
import logging
from collections import Counter

import pytest

from duly import App
from duly.services.monitoring import live
from duly.surfaces.http.port import HttpPort

PLACES, CALLERS = 3, 20
DEADLINE_SECONDS = 20
ASK = b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.requirement("X1", "S3")
async def test_event_streams_are_limited_and_each_place_is_freed(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live, "MOST_LISTENERS", PLACES)
    async with App(sqlite_url, environment={}, port=0) as app:
        port = await HttpPort.of(app, app.engine())
        await port.start(lambda: None)
        async with asyncio.timeout(DEADLINE_SECONDS):
            callers = [await opened(port) for _ in range(CALLERS)]
            assert await answers(callers) == {b"200": PLACES, b"429": CALLERS - PLACES}
            hang_up(callers)
            # These disconnect before they are answered, some of them before the stream begins.
            for _ in range(CALLERS):
                caller = await opened(port)
                caller[1].write(ASK)
                hang_up([caller])
            while not await is_accepted(port):
                """Wait until the server has noticed."""
        await port.stopping()
        await port.stop()
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


Caller = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def opened(port: HttpPort) -> Caller:
    assert port.url is not None
    return await asyncio.open_connection("127.0.0.1", int(port.url.rpartition(":")[2]))


async def answers(callers: list[Caller]) -> Counter[bytes]:
    """The number of answers with each status, to requests at once."""
    for _, writer in callers:
        writer.write(ASK)
    return Counter([(await reader.readline()).split()[1] for reader, _ in callers])


async def is_accepted(port: HttpPort) -> bool:
    caller = await opened(port)
    status_lines = await answers([caller])
    hang_up([caller])
    return b"200" in status_lines


def hang_up(callers: list[Caller]) -> None:
    for _, writer in callers:
        writer.transport.abort()
