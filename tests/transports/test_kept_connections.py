"""Connections that are kept for the next request: when they are, and what happens if they end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import weakref
from contextvars import ContextVar

import pytest

import duly
from duly import App
from duly.domain.deliveries.outcomes import Completed, Failed
from duly.records.reason import Reason
from duly.testing import VirtualClock, run_until_idle
from duly.transports.webhooks.connection import Connection
from duly.transports.webhooks.connections import KEPT_SECONDS
from tests.transports.receiver import Receiver, Talk, answer, lasting, receiver, says
from tests.transports.sending import Sender, names_lead_to, sender

pytestmark = pytest.mark.requirement("C5")
OK = lasting(200, b"ok")


def in_turn(*answers: bytes) -> Talk:
    """A server whose requests, over all connections, get these answers; an empty one closes."""
    left = iter(answers)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = next(left)
        writer.write(said)
        if b"ok" not in said:
            writer.close()
            raise ConnectionResetError

    return talk


async def outcomes_of(
    there: Receiver, here: Sender, count: int, url: str | None = None
) -> list[object]:
    return [await here.send(url or there.url()) for _ in range(count)]


async def test_the_next_request_uses_the_same_connection() -> None:
    async with sender(VirtualClock()) as here, receiver(says(OK), lasts=True) as there:
        outcomes = await outcomes_of(there, here, 3)
    assert [type(each) for each in outcomes] == [Completed] * 3
    assert (there.connections, len(there.taken)) == (1, 3)


async def test_an_answer_that_closes_its_connection_ends_it() -> None:
    async with sender(VirtualClock()) as here, receiver(says(answer(200)), lasts=True) as there:
        outcomes = await outcomes_of(there, here, 2)
    assert [type(each) for each in outcomes] == [Completed] * 2
    assert there.connections == 2


async def test_a_request_that_meets_the_end_of_its_kept_connection_is_sent_again() -> None:
    talk = in_turn(OK, b"", OK)
    async with sender(VirtualClock()) as here, receiver(talk, lasts=True) as there:
        outcomes = await outcomes_of(there, here, 2)
    assert [type(each) for each in outcomes] == [Completed] * 2
    assert there.connections == 2
    _, lost, repeated = there.taken
    assert lost == repeated


async def test_it_is_sent_again_only_once() -> None:
    talk = in_turn(OK, b"", b"")
    async with sender(VirtualClock()) as here, receiver(talk, lasts=True) as there:
        _, outcome = await outcomes_of(there, here, 2)
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.TRANSPORT_UNAVAILABLE
    assert (there.connections, len(there.taken)) == (2, 3)


@pytest.mark.parametrize("begun", [b"H", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n"])
async def test_nothing_is_sent_again_after_an_answer_began(begun: bytes) -> None:
    talk = in_turn(OK, begun, OK)
    async with sender(VirtualClock()) as here, receiver(talk, lasts=True) as there:
        _, outcome = await outcomes_of(there, here, 2)
    assert isinstance(outcome, Failed)
    assert outcome.reason is Reason.TRANSPORT_UNAVAILABLE
    assert (there.connections, len(there.taken)) == (1, 2)


@pytest.mark.parametrize("more", [b"HTTP/1.1 5", b"HTTP/1.1 500 No\r\n\r\n", b"\r\nx", OK, b"x"])
async def test_after_more_than_an_answer_a_new_connection_is_used(more: bytes) -> None:
    talk = in_turn(OK + more, OK)
    async with sender(VirtualClock()) as here, receiver(talk, lasts=True) as there:
        outcomes = await outcomes_of(there, here, 2)
    assert [type(each) for each in outcomes] == [Completed] * 2
    assert (there.connections, len(there.taken)) == (2, 2)


async def test_a_new_connection_that_is_closed_without_an_answer_is_a_failure() -> None:
    async with sender(VirtualClock()) as here, receiver(in_turn(b"", OK)) as there:
        (outcome,) = await outcomes_of(there, here, 1)
    assert isinstance(outcome, Failed)
    assert "closed without an answer" in outcome.error
    assert len(there.taken) == 1


async def test_sending_again_spends_no_attempt(database_url: str) -> None:
    talk = in_turn(OK, b"", OK)
    allowed = "127.0.0.1/32"
    async with (
        receiver(talk, lasts=True) as there,
        App(database_url, egress_allow=allowed, environment={}) as app,
    ):
        for n in range(2):
            accepted = await app.deliver(duly.webhook(there.url()), n, retry=duly.no_retry)
            await run_until_idle(app)
        delivery = await app.get(accepted.id)
    assert (delivery.state, delivery.attempt) == ("completed", 1)
    assert [each.headers["webhook-attempt"] for each in there.taken] == ["1", "1", "1"]


async def test_a_connection_that_its_peer_has_closed_meanwhile_is_not_used() -> None:
    writers: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(OK)

    async with sender(VirtualClock()) as here, receiver(talk, lasts=True) as there:
        await here.send(there.url())
        writers[0].close()
        for _ in range(20):  # both sides share the event loop
            await asyncio.sleep(0)
        assert not open_connections(here)
        assert isinstance(await here.send(there.url()), Completed)
    assert (there.connections, len(there.taken)) == (2, 2)


async def test_a_connection_is_not_kept_for_long() -> None:
    async with sender(VirtualClock()) as here, receiver(says(OK), lasts=True) as there:
        await here.send(there.url())
        connections = here.connections
        connections._sweep()
        (connection,) = open_connections(here)
        connection.rested_at -= KEPT_SECONDS
        connections._sweep()
        assert not connection.is_open
        assert connections._kept == {}
        await outcomes_of(there, here, 1)
    assert there.connections == 2


async def test_a_kept_connection_keeps_nothing_of_its_deliveries() -> None:
    kept: weakref.ReferenceType[Whole] | None = None

    async def deliver() -> None:
        nonlocal kept
        whole = Whole()
        kept = weakref.ref(whole)
        CURRENT.set(whole)
        await here.send(there.url())

    async with sender(VirtualClock()) as here, receiver(says(OK), lasts=True) as there:
        await asyncio.create_task(deliver())
        await asyncio.sleep(0)
        gc.collect()
        assert kept is not None
        assert kept() is None
        assert open_connections(here)


class Whole:
    """What an attempt has in its context."""


CURRENT: ContextVar[Whole] = ContextVar("current")


async def test_at_the_end_kept_connections_are_closed() -> None:
    async with receiver(says(OK), lasts=True) as there:
        async with sender(VirtualClock()) as here:
            await here.send(there.url())
            (connection,) = open_connections(here)
        assert not connection.is_open


async def test_a_cancelled_exchange_closes_its_connection() -> None:
    came = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        assert await reader.read() == b""

    async with sender(VirtualClock()) as here, receiver(talk) as there:
        sending = asyncio.ensure_future(here.send(there.url()))
        await came.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await asyncio.wait(there.tasks)
        assert not open_connections(here)


async def test_hosts_with_the_same_address_have_connections_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names_lead_to(monkeypatch, "127.0.0.1")
    async with sender(VirtualClock()) as here, receiver(says(OK), lasts=True) as there:
        for host in ("a.example", "b.example", "a.example", "A.example."):
            outcome = await here.send(f"http://{host}:{there.port}/")
            assert isinstance(outcome, Completed)
    assert there.connections == 3  # an absolute name may be another host
    assert {each.headers["host"] for each in there.taken} == {
        f"{host}.example:{there.port}" for host in "ab"
    }


async def test_a_connection_that_ends_long_after_the_request_was_an_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duly.transports.webhooks.connection.STALE_SECONDS", 0.0)
    talk = in_turn(OK, b"", OK)
    async with sender(VirtualClock()) as here, receiver(talk, lasts=True) as there:
        _, outcome = await outcomes_of(there, here, 2)
    assert isinstance(outcome, Failed)
    assert (there.connections, len(there.taken)) == (1, 2)


async def test_not_all_connections_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.transports.webhooks.connections.MOST_KEPT", 2)
    names_lead_to(monkeypatch, "127.0.0.1")
    async with sender(VirtualClock()) as here, receiver(says(OK), lasts=True) as there:
        for host in "abacab":
            await here.send(f"http://{host}.example:{there.port}/")
            assert len(open_connections(here)) == here.connections._many <= 2
    assert there.connections == 4  # b was dropped for c: it was not used for the longest time


async def test_without_a_free_descriptor_kept_connections_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names_lead_to(monkeypatch, "127.0.0.1")
    is_full = False

    def opening(_: int) -> None:
        if is_full and open_connections(here):
            raise OSError(errno.EMFILE, "Too many open files")

    async with sender(VirtualClock(), opening) as here, receiver(says(OK), lasts=True) as there:
        await here.send(f"http://a.example:{there.port}/")
        is_full = True
        assert isinstance(await here.send(f"http://b.example:{there.port}/"), Completed)


async def test_an_answer_before_the_end_of_a_long_request_ends_the_connection() -> None:
    ended = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(lasting(413, b"too long"))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.set()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1024)
    async with server, sender(VirtualClock()) as here:
        port = server.sockets[0].getsockname()[1]
        outcome = await here.send(f"http://127.0.0.1:{port}/", b"x" * 8_000_000)
        assert isinstance(outcome, Failed)
        assert "413" in outcome.error
        assert not open_connections(here)
        await ended.wait()


def open_connections(here: Sender) -> list[Connection]:
    kept = here.connections._kept.values()
    return [each for some in kept for each in some if each.is_open]
