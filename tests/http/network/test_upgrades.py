"""Requests with an upgrade: it is ignored, and their body is never read as a request."""

import itertools

import pytest

from tests.http.raw import PROBLEM, on_served_loop, raw_server

pytestmark = pytest.mark.requirement("X1", "S2")

INNER = b"POST /smuggled HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}"
PLAIN = b"GET /next HTTP/1.1\r\nhost: localhost\r\n\r\n"
PROTOCOLS = (b"h2c", b"websocket")
CONNECTIONS = (b"upgrade", b"Upgrade, HTTP2-Settings", b"keep-alive, upgrade")


def head(protocol: bytes, more: bytes = b"", connection: bytes = b"upgrade") -> bytes:
    return (
        b"POST /asked?3 HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: 203.0.113.9\r\n"
        b"connection: %s\r\nupgrade: %s\r\n%s\r\n" % (connection, protocol, more)
    )


def with_length(protocol: bytes, body: bytes, connection: bytes = b"upgrade") -> bytes:
    return head(protocol, b"content-length: %d\r\n" % len(body), connection) + body


def in_chunks(protocol: bytes, body: bytes, connection: bytes = b"upgrade") -> bytes:
    sent = head(protocol, b"transfer-encoding: chunked\r\n", connection)
    return sent + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("made", [with_length, in_chunks])
@on_served_loop
async def test_a_body_is_never_a_request_wherever_it_is_split(
    made: object, protocol: bytes
) -> None:
    assert callable(made)
    sent = made(protocol, INNER)
    async with raw_server() as server:
        caller = await server.caller()
        for place in range(len(sent)):
            await caller.send(*filter(None, (sent[:place], sent[place:])))
            assert (await caller.answer())[2] == b"xxx", place
        await caller.send(*(sent[place : place + 1] for place in range(len(sent))))
        assert await caller.status() == 200
        assert server.bodies == [INNER] * (len(sent) + 1)
        assert {each["path"] for each in server.scopes} == {"/asked"}
        forwarded = [dict(each["headers"])[b"x-forwarded-for"] for each in server.scopes]
        assert set(forwarded) == {b"203.0.113.9"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@on_served_loop
async def test_a_large_body_is_never_a_request(protocol: bytes) -> None:
    body = b"\r\n" * 150_000 + INNER
    async with raw_server() as server:
        for made in (with_length, in_chunks):
            caller = await server.caller()
            await caller.send(made(protocol, body) + PLAIN)
            assert [await caller.status(), await caller.status()] == [200, 200]
        assert server.bodies == [body, b""] * 2
        assert [each["path"] for each in server.scopes] == ["/asked", "/next"] * 2


@on_served_loop
async def test_requests_after_an_upgrade_are_answered() -> None:
    async with raw_server() as server:
        for protocol, connection in itertools.product(PROTOCOLS, CONNECTIONS):
            caller = await server.caller()
            bare = head(protocol, b"http2-settings: AAMAAABk\r\n", connection)
            whole = with_length(protocol, b"{}", connection)
            await caller.send(PLAIN + bare + whole + bare + PLAIN)
            assert [await caller.status() for _ in range(5)] == [200] * 5
            assert server.bodies[-5:] == [b"", b"", b"{}", b"", b""]


@on_served_loop
async def test_an_upgrade_with_connection_close_or_http_1_0_is_closed() -> None:
    async with raw_server() as server:
        closing = with_length(b"h2c", b"{}", b"close, upgrade")
        old = with_length(b"h2c", b"{}").replace(b"HTTP/1.1", b"HTTP/1.0")
        for each in (closing, old):
            caller = await (await server.caller()).send(each)
            assert (await caller.answer())[1]["connection"] == "close"
            assert await caller.is_closed()


@on_served_loop
async def test_a_tunnel_is_refused() -> None:
    upgrade = b"connection: upgrade\r\nupgrade: h2c\r\n"
    async with raw_server() as server:
        for more in (b"", upgrade, upgrade + b"content-length: %d\r\n" % len(INNER)):
            caller = await server.caller()
            await caller.send(b"CONNECT localhost:80 HTTP/1.1\r\n" + more + b"\r\n" + INNER)
            status, headers, _ = await caller.answer()
            assert (status, headers["content-type"]) == (400, PROBLEM)
            assert await caller.is_closed()
        assert server.scopes == []
