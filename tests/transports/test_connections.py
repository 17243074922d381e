"""Connections: the timing of their parts, and names with several addresses."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from duly.domain.deliveries.outcomes import Completed, Deferred, Failed
from duly.records.reason import Reason
from duly.testing import VirtualClock
from duly.transports.webhooks.connections import tls_context
from tests.transports.receiver import Receiver, lasting, receiver, says
from tests.transports.sending import names_lead_to, sender, timing_of
from tests.transports.test_webhooks import SELF_SIGNED

LASTING = lasting(204)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the receiver's certificate instead of the system's authorities."""
    context = tls_context(str(SELF_SIGNED))
    monkeypatch.setattr("duly.transports.webhooks.connections.tls_context", lambda: context)


class Slow:
    """A server whose answers take four seconds each; the connection stays open."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._answer(writer)
        while True:
            await reader.readuntil(b"{}")
            self._answer(writer)

    def _answer(self, writer: asyncio.StreamWriter) -> None:
        self._clock.advance(4)
        writer.write(LASTING)


def greets_slowly(there: Receiver, clock: VirtualClock) -> None:
    """Let its part of every TLS handshake take two seconds."""

    def greet(*_: object) -> None:
        clock.advance(2)

    assert there.secure is not None
    there.secure.sni_callback = greet


@pytest.mark.requirement("C5")
@pytest.mark.usefixtures("trusted")
async def test_each_part_of_a_request_is_timed_and_a_reused_connection_has_fewer(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_lead_to(monkeypatch, "127.0.0.1", lookup=lambda _: clock.advance(1))
    async with (
        receiver(Slow(clock).talk, SELF_SIGNED) as there,
        sender(clock, lambda _: clock.advance(0.5)) as here,
    ):
        greets_slowly(there, clock)
        url = f"https://localhost:{there.port}/"
        first, second = await here.send(url), await here.send(url)
    assert isinstance(first, Completed)
    assert isinstance(second, Completed)
    parts = {"dns": 1000, "connect": 500, "tls": 2000, "first_byte": 4000, "total": 7500}
    assert timing_of(first) == parts
    assert timing_of(second) == {"first_byte": 4000, "total": 4000}
    assert there.connections == 1


@pytest.mark.requirement("C5")
async def test_a_plain_connection_to_an_address_has_neither_lookup_nor_handshake(
    clock: VirtualClock,
) -> None:
    async with (
        receiver(Slow(clock).talk) as there,
        sender(clock, lambda _: clock.advance(0.5)) as here,
    ):
        outcome = await here.send(there.url())
    assert timing_of(outcome) == {"connect": 500, "first_byte": 4000, "total": 4500}


@pytest.mark.requirement("C5")
async def test_a_failed_handshake_counts_only_in_the_total(
    clock: VirtualClock,
) -> None:
    async with (
        receiver(certificate=SELF_SIGNED) as there,
        sender(clock, lambda _: clock.advance(0.5)) as here,
    ):
        greets_slowly(there, clock)
        outcome = await here.send(f"https://127.0.0.1:{there.port}/")
    assert isinstance(outcome, Failed)
    assert timing_of(outcome) == {"connect": 500, "total": 2500}


def without_route_to_ipv6(family: int) -> None:
    """Raise the error of a host without IPv6."""
    if family == socket.AF_INET6:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")


PUBLIC = ("2606:4700::1", "2606:4700::2")
CLOSED = "http://a.example:9/"


@pytest.mark.requirement("C5", "C8")
async def test_a_missing_route_to_one_address_does_not_hide_the_failure_of_another(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_lead_to(monkeypatch, "127.0.0.1", *PUBLIC)
    async with sender(clock, without_route_to_ipv6) as here:
        outcome = await here.send(CLOSED)
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.TRANSPORT_UNAVAILABLE
    assert "Connect call failed ('127.0.0.1', 9)" in outcome.error


@pytest.mark.requirement("C5", "C8")
async def test_a_missing_route_to_all_addresses_is_not_the_endpoints_fault(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_lead_to(monkeypatch, *PUBLIC)
    async with sender(clock, without_route_to_ipv6) as here:
        assert await here.send(CLOSED) == Deferred(10.0)


@pytest.mark.requirement("C7")
@pytest.mark.parametrize(
    ("addresses", "again"),
    [(("10.0.0.1", "10.0.0.2", "fd00::1"), False), (("127.0.0.1", "10.0.0.1"), None)],
    ids=["all guarded", "one guarded"],
)
async def test_a_name_is_dead_at_once_only_if_all_its_addresses_are_guarded(
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    addresses: tuple[str, ...],
    again: bool | None,
) -> None:
    names_lead_to(monkeypatch, *addresses)
    async with sender(clock) as here:
        outcome = await here.send(CLOSED)
    assert isinstance(outcome, Failed)
    assert outcome.again is again


@pytest.mark.requirement("C5")
@pytest.mark.usefixtures("trusted")
async def test_a_trusted_certificate_for_another_host_is_refused(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_lead_to(monkeypatch, "127.0.0.1")
    async with receiver(certificate=SELF_SIGNED) as there, sender(clock) as here:
        outcome = await here.send(f"https://other.example:{there.port}/")
        accepted = await here.send(f"https://localhost:{there.port}/")
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.TRANSPORT_UNAVAILABLE
    assert "Hostname mismatch" in outcome.error
    assert isinstance(accepted, Completed)
    assert [each.headers["host"] for each in there.taken] == [f"localhost:{there.port}"]


@pytest.mark.requirement("C5")
async def test_a_handshake_that_hangs_ends_at_the_deadline(clock: VirtualClock) -> None:
    ended = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        writer.close()
        ended.set()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server, sender(clock, timeout=1) as here:
        port = server.sockets[0].getsockname()[1]
        outcome = await here.send(f"https://127.0.0.1:{port}/")
        assert isinstance(outcome, Failed)
        assert outcome.reason is Reason.TIMEOUT_EXCEEDED
        await ended.wait()  # its connection is closed, too


@pytest.mark.requirement("C5")
async def test_an_address_that_does_not_answer_does_not_keep_from_the_next(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_lead_to(monkeypatch, "127.0.0.2", "127.0.0.1")
    async with (
        receiver(says(LASTING)) as there,
        sender(clock, timeout=60, allowed="127.0.0.0/8") as here,
    ):
        with full("127.0.0.2", there.port):
            outcome = await here.send(f"http://a.example:{there.port}/")
    assert isinstance(outcome, Completed)
    assert len(there.taken) == 1


@contextmanager
def full(address: str, port: int) -> Iterator[None]:
    """A port that accepts no connection, and refuses none: its queue is full."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind((address, port))
        server.listen(0)
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex((address, port))
        yield


@pytest.mark.requirement("C5")
async def test_a_given_header_replaces_ours_however_it_is_written(clock: VirtualClock) -> None:
    carried = {"TraceParent": "ours", "tracestate": "ours"}
    given = {"CONTENT-TYPE": "text/plain", "user-agent": "me", "traceparent": "theirs"}
    async with receiver() as there, sender(clock, carried=lambda: carried) as here:
        await here.send(there.url("/a?b=c&d"), headers=given, method="PUT")
    (taken,) = there.taken
    assert taken.line == "PUT /a?b=c&d HTTP/1.1"
    names = [name.lower() for name in there.names]
    assert len(names) == len(set(names))
    expected = {name.lower(): value for name, value in given.items()} | {"tracestate": "ours"}
    assert {name: taken.headers[name] for name in expected} == expected
