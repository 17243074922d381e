"""The connection pool: connections are reused, limited, replaced if stale, closed if cancelled."""

import asyncio

import pytest

import duly
from duly.client import pool
from duly.client.pool import Pool, Request, Unanswered
from duly.testing import VirtualClock
from tests.client.servers import Answer, Received, answering, json, losing, script

pytestmark = pytest.mark.requirement("C10")
FINE = json(b"{}")
OK = b"HTTP/1.1 200 OK\r\n"
LOOK = Request(method="GET", path="/v1/status")


class RecordedClock(VirtualClock):
    """A clock that records its sleeps."""

    def __init__(self) -> None:
        super().__init__(sleeping_moves_it=True)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)


async def test_consecutive_calls_share_a_connection(url: str) -> None:
    async with losing(url, lambda _number: False) as proxy, duly.Client(proxy.url) as client:
        for number in range(10):
            await client.deliver("log", number, after=60)
            await client.stats.status()
    assert (len(proxy.requests), proxy.connections) == (20, 1)


async def test_there_are_never_more_connections_than_allowed() -> None:
    async def slowly(_request: bytes, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(0.01)
        writer.write(FINE)
        return True

    async with answering(slowly) as received:
        connections = Pool(received.url, connections=3)
        replies = await asyncio.gather(*(connections.exchange(LOOK) for _ in range(20)))
        await connections.close()
    assert [each.status for each in replies] == [200] * 20
    assert (received.most, received.connections) == (3, 3)


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async with answering(closing_after(FINE)) as received:
        connections = Pool(received.url)
        await connections.exchange(LOOK)
        await connections._idle[0].closed.wait()
        await connections.exchange(LOOK)
        await connections.close()
    assert received.connections == 2


def closing_after(data: bytes) -> Answer:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(data)
        await writer.drain()
        return False

    return answer


async def test_a_connection_that_was_idle_for_long_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.0)
    async with answering(script(FINE)) as received:
        connections = Pool(received.url)
        await connections.exchange(LOOK)
        await connections.exchange(LOOK)
        await connections.close()
    assert received.connections == 2


async def test_a_stale_connection_is_replaced_at_once() -> None:
    clock = RecordedClock()
    delivered = json(b'{"id": "x", "due_at": "2026-11-16T09:00:00Z", "known": false}')
    async with (
        answering(script(delivered, None, delivered)) as received,
        duly.Client(received.url, clock=clock) as client,
    ):
        await client.deliver("log", 1)
        await client.deliver("log", 2)
    assert (len(received.requests), received.connections, clock.slept) == (3, 2, [])
    assert received.requests[1] == received.requests[2], "with the same key"


async def test_only_a_reused_connection_without_an_answer_is_stale() -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> bool:
        number = len(received.requests)
        writer.write({1: b"", 2: FINE, 3: OK + b"content-"}[number])
        await writer.drain()
        return number == 2

    async with answering(answer) as received:
        connections = Pool(received.url)
        for number in (1, 2, 3):
            results = await asyncio.gather(connections.exchange(LOOK), return_exceptions=True)
            assert (type(results[0]) is Unanswered) == (number != 2), results
    assert received.connections == 2


async def test_a_request_that_must_not_be_repeated_gets_a_new_connection() -> None:
    async with (
        answering(script(b"HTTP/1.1 204 No Content\r\n\r\n")) as received,
        duly.Client(received.url) as client,
    ):
        for _ in range(3):
            await client.schedules.remove("monday")
    assert (len(received.requests), received.connections) == (3, 3)


async def test_a_cancelled_call_closes_its_connection() -> None:
    async def never(_request: bytes, _writer: asyncio.StreamWriter) -> bool:
        await asyncio.Event().wait()
        return True

    async with answering(never) as received:
        connections = Pool(received.url, connections=1)
        for number in range(1, 4):
            call = asyncio.ensure_future(connections.exchange(LOOK))
            await received.wait_for(number)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await connections.close()
    assert received.connections == 3, "none was reused, and its place was freed"


async def test_a_late_answer_is_never_given_to_another_call() -> None:
    cancelled = asyncio.Event()

    async def late(request: bytes, writer: asyncio.StreamWriter) -> bool:
        if b"first" in request:
            await cancelled.wait()
        writer.write(json(b'"first"' if b"first" in request else b'"second"'))
        return True

    async with answering(late) as received:
        connections = Pool(received.url, connections=1)
        call = asyncio.ensure_future(connections.exchange(Request(method="GET", path="/first")))
        await received.wait_for(1)
        call.cancel()
        cancelled.set()
        reply = await connections.exchange(Request(method="GET", path="/second"))
        await connections.close()
    assert reply.body == b'"second"'


async def test_a_silent_server_is_a_timeout() -> None:
    async def silent(_request: bytes, _writer: asyncio.StreamWriter) -> bool:
        await asyncio.Event().wait()
        return True

    async with answering(silent) as received, duly.Client(received.url, timeout=0.05) as client:
        with pytest.raises(duly.StoreUnavailable, match="did not answer: timed out"):
            await client.stats.status()
    assert len(received.requests) == 1


async def test_retry_after_is_honoured_with_429_always_and_with_503_if_it_is_safe() -> None:
    problem = b'{"detail": "later"}'
    busy = later("429 Too Many Requests", problem, 7)
    away = later("503 Service Unavailable", problem, 3)
    running = later("409 Conflict", problem, 1)
    clock = RecordedClock()
    async with (
        answering(script(busy, away, running, FINE)) as received,
        duly.Client(received.url, clock=clock) as client,
    ):
        with pytest.raises(duly.StoreUnavailable, match="cannot be read"):
            await client.stats.status()
    assert (len(received.requests), clock.slept) == (4, [7, 3, 1])
    async with (
        answering(script(busy, away, FINE)) as received,
        duly.Client(received.url, clock=clock) as client,
    ):
        with pytest.raises(duly.StoreUnavailable, match="the server answered: later"):
            await client.workers.drain(1)
    assert (len(received.requests), clock.slept[3:]) == (2, [7])


def later(status: str, body: bytes, seconds: int) -> bytes:
    answer = json(body, status, f"retry-after: {seconds}")
    return answer.replace(b"application/json", b"application/problem+json")


async def test_a_retry_after_that_is_too_long_is_an_error() -> None:
    async with (
        answering(script(later("429 X", b'{"detail": "later"}', 31))) as received,
        duly.Client(received.url) as client,
    ):
        with pytest.raises(duly.Busy, match="later"):
            await client.stats.status()
    assert len(received.requests) == 1


async def exchanged(*answers: bytes) -> tuple[bytes, Received]:
    async with answering(script(*answers)) as received:
        connections = Pool(received.url, longest=1000)
        try:
            body = (await connections.exchange(LOOK)).body
            await connections.exchange(LOOK)
        finally:
            await connections.close()
    return body, received


@pytest.mark.parametrize(
    ("answer", "body", "connections"),
    [
        (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", b"abc", 1),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na", b"a", 1),
        (OK + b"content-length: 1\r\nconnection: close\r\n\r\na", b"a", 2),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na", b"a", 2),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", 1),
        (FINE + json(b"no", "500 X"), b"{}", 2),
        (FINE + b"no HTTP", b"{}", 2),
    ],
    ids=["chunked", "interim", "close", "1.0", "204", "two answers", "garbage after it"],
)  # fmt: skip
async def test_answers_of_every_framing_are_read(
    answer: bytes, body: bytes, connections: int
) -> None:
    found, received = await exchanged(answer)
    assert (found, received.connections) == (body, connections)


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async with answering(closing_after(OK + b"\r\nabc")) as received:
        reply = await Pool(received.url).exchange(LOOK)
    assert reply.body == b"abc"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "this is not HTTP"),
        (b"HTTP/1.1 101 X\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "not HTTP"),
        (OK + b"a: b\r\n" * 20_000, "its headers are too long"),
        (OK + b"a: " + b"b" * 100_000, "its headers are too long"),
        (OK + b"content-length: 1001\r\n\r\n" + b"a" * 1001, "is longer than 0 KB"),
    ],
    ids=["ssh", "upgrade", "headers", "header", "body"],
)  # fmt: skip
async def test_an_invalid_answer_is_refused(answer: bytes, message: str) -> None:
    with pytest.raises(duly.StoreUnavailable, match=message):
        await exchanged(answer)


async def test_a_body_that_ends_early_is_an_error() -> None:
    async with answering(closing_after(OK + b"content-length: 5\r\n\r\nabc")) as received:
        with pytest.raises(Unanswered, match="it closed the connection"):
            await Pool(received.url).exchange(LOOK)
