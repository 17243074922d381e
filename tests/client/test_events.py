"""client.events(): the events of the server, even after lost connections."""

import asyncio
import signal
from contextlib import aclosing

import msgspec
import pytest

import duly
from duly.client import events
from duly.records.stats import Counts, Second
from duly.testing import VirtualClock
from tests.client.servers import answering, json, script
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("C10")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def event(id: int) -> bytes:
    second = Second(
        id=id,
        at=VirtualClock().now(),
        counts=Counts(),
        due=0,
        late=0,
        processing=0,
        dead_letters=0,
        oldest_due_seconds=0.0,
        workers=1,
    )
    return b"id: %d\r\nevent: second\r\ndata: %s\r\nretry: 2000\r\n\r\n" % (
        id,
        msgspec.json.encode(second),
    )


async def test_events_come_from_a_real_server_that_is_restarted(own_home: Home) -> None:
    with own_home.serving() as server:
        client = duly.Client(server.url)
        seconds = client.events()
        first, second = await anext(seconds), await anext(seconds)
        assert first.id < second.id
        assert (first.workers, first.counts.accepted) == (1, 0)
        server.signal(signal.SIGTERM)
        server.end()
    port = client._requester.server.rpartition(":")[2]
    with own_home.running("serve", "--port", port) as server:
        server.wait_for("Serving")
        async with asyncio.timeout(60):
            assert (await anext(seconds)).id > second.id
        await client.close()
        await seconds.aclose()


async def test_a_lost_connection_is_resumed_after_the_last_event() -> None:
    parts = event(7)
    cut = HEAD + parts[:50]

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> bool:
        number = len(received.requests)
        writer.write(cut if number == 2 else HEAD + event(number) + event(number + 10))
        await writer.drain()
        return False

    async with answering(answer) as received:
        client = duly.Client(received.url, clock=VirtualClock())
        async with aclosing(client.events(after=3)) as seconds:
            found = [(await anext(seconds)).id for _ in range(4)]
    assert found == [1, 11, 3, 13]
    expected_headers = [b"last-event-id: %d" % id for id in (3, 11, 11)]
    assert all(
        header in request
        for header, request in zip(expected_headers, received.requests, strict=True)
    )


async def test_a_silent_connection_is_treated_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LONGEST_SILENCE_SECONDS", 0.05)
    async with answering(script(HEAD + event(1), HEAD + event(2))) as received:
        client = duly.Client(received.url, clock=VirtualClock())
        async with aclosing(client.events()) as found:
            assert [(await anext(found)).id for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("answer", [json(b"{}"), HEAD + b"data: {}\n\n"])
async def test_the_answer_of_another_server_is_an_error(answer: bytes) -> None:
    async with answering(script(answer)) as received:
        with pytest.raises(duly.StoreUnavailable, match="cannot be read by this version"):
            await anext(duly.Client(received.url).events())


async def test_a_minute_without_an_event_is_an_error() -> None:
    clock = VirtualClock(sleeping_moves_it=True)
    async with answering(script(None)) as received:
        with pytest.raises(duly.StoreUnavailable, match="did not answer"):
            await anext(duly.Client(received.url, clock=clock).events())
    assert 20 < len(received.requests) < 40


async def test_a_refusal_is_raised() -> None:
    refused = json(b'{"detail": "no key"}', "401 Unauthorized")
    refused = refused.replace(b"application/json", b"application/problem+json")
    async with answering(script(refused)) as received:
        with pytest.raises(duly.BadSetting, match="no key"):
            await anext(duly.Client(received.url).events())
    with pytest.raises(duly.StoreUnavailable, match="cannot reach"):
        await anext(duly.Client("http://127.0.0.1:9").events())
