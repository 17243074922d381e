"""Answers of foreign servers: no command hangs or ends with a traceback."""

import io
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import msgspec
import pytest

from duly.services.transfer.exporting import ExportSummary
from duly.surfaces.cli.monitoring import health
from duly.surfaces.cli.terminal.output import json_text
from duly.surfaces.cli.transfer.exporting import _written
from tests.surfaces.remote.test_failures import NAMED, NOBODY, PROBLEM, answering
from tests.surfaces.sides import command

pytestmark = pytest.mark.requirement("C10", "X5")
INVALID = b'{"store": "\xff", "detail": "\xff", "field": "a", "payload": "\xff"}'


@contextmanager
def endless(start: bytes, repeated: bytes) -> Iterator[str]:
    """A server that sends the start of an answer, and then the same bytes without end."""
    ends = threading.Event()

    def send() -> None:
        with suppress(OSError), listening.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(start)
            while not ends.wait(0.01):
                connection.sendall(repeated)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ends.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("start", "repeated"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "100"],
)
def test_health_stops_at_its_deadline(
    monkeypatch: pytest.MonkeyPatch, start: bytes, repeated: bytes
) -> None:
    monkeypatch.setattr(health, "LONGEST_SECONDS", 0.1)
    with endless(start, repeated) as url:
        done = command("health", "--server", url, environ={})
    assert done.code == 4
    assert "did not finish its answer within 0.1 seconds" in done.err


def test_health_does_not_read_a_long_answer() -> None:
    with answering((200, NAMED, b'"%s"' % (b"x" * 65_536))) as (url, _):
        done = command("health", "--server", url, environ={})
    assert done.code == 4
    assert "is longer than 64 KB" in done.err


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_health_accepts_an_answer_that_is_not_utf8(status: int, code: int) -> None:
    with answering((status, NAMED, INVALID)) as (url, _):
        done = command("health", "--server", url, "--json", environ={})
    assert done.code == code
    assert json.loads(done.out) == {"ok": code == 0, "status": status, "answer": None}


@pytest.mark.parametrize(("status", "kind"), [(200, NAMED), (422, PROBLEM)])
@pytest.mark.parametrize("arguments", [("deliveries", "show", NOBODY), ("status",)], ids=str)
def test_an_answer_that_is_not_utf8_is_an_error(
    status: int, kind: dict[str, str], arguments: tuple[str, ...]
) -> None:
    with answering((status, kind, INVALID)) as (url, _):
        done = command(*arguments, "--json", "--server", url, environ={})
    assert done.code == 4
    assert "Traceback" not in done.err


def test_json_that_is_not_utf8_can_be_shown() -> None:
    assert json_text({"payload": msgspec.Raw(b'"a\xffb"')}) == '{"payload":"a\ufffdb"}'


async def test_an_export_that_is_not_utf8_can_be_shown() -> None:
    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    async def lines() -> AsyncIterator[ExportSummary]:
        yield ExportSummary(b'"a\xffb"\n')

    out = Terminal()
    await _written(lines(), out, lambda _count: None)
    assert out.getvalue().decode() == '"a\ufffdb"\n'
