"""Connections: the timing of their parts, and names with several addresses."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl

import pytest

from duly.domain.deliveries.outcomes import Completed, Deferred, Failed
from duly.records.reason import Reason
from duly.testing import VirtualClock
from tests.transports.receiver import Receiver, answer, receiver
from tests.transports.sending import names_lead_to, sender, timing_of
from tests.transports.test_webhooks import SELF_SIGNED

LASTING = answer(204).replace(b"Connection: close\r\n", b"")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the receiver's certificate instead of the system's authorities."""
    context = ssl.create_default_context(cafile=str(SELF_SIGNED))
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", context)


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
