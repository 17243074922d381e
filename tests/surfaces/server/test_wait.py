"""`duly serve --wait`: wait for a store that cannot be reached yet."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from duly import App
from duly.errors import StoreUnavailable
from tests.support.postgres import free_port
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("D14")


@contextmanager
def forwarded(port: int, to: str) -> Iterator[None]:
    """Forward connections on the port to a PostgreSQL."""
    parts = urlsplit(to)
    threads: list[threading.Thread] = []
    opened: list[socket.socket] = []

    def start(work: Callable[..., None], *args: socket.socket) -> None:
        threads.append(threading.Thread(target=work, args=args))
        threads[-1].start()

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def accept(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                ours, _ = server.accept()
                opened.append(ours)
                theirs = socket.create_connection((parts.hostname or "", parts.port or 5432))
                opened.append(theirs)
                start(pump, ours, theirs)
                start(pump, theirs, ours)

    with socket.create_server(("127.0.0.1", port)) as server:
        start(accept, server)
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            threads[0].join()
            for each in opened:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for each in opened:
                each.close()


def test_it_waits_for_a_postgres_that_starts_later(postgres_url: str, sqlite_home: Home) -> None:
    parts, port = urlsplit(postgres_url), free_port()
    place = parts.netloc.rpartition("@")
    away = parts._replace(netloc=f"{place[0]}{place[1]}127.0.0.1:{port}").geturl()
    with sqlite_home.running("serve", "--wait", "--port", "0", "--database", away) as server:
        assert "cannot be reached" in server.wait_for("StoreUnreachable")["problem"]
        with forwarded(port, postgres_url):
            assert server.wait_for("StoreReachable")["failures"] >= 1
            assert server.wait_for("Serving")["url"]
            server.signal(signal.SIGTERM)
            assert server.end() == 0


def test_it_waits_for_an_sqlite_file_that_cannot_be_read_yet(sqlite_home: Home) -> None:
    sqlite_home.write("duly.db", "not yet a database" * 100)
    with sqlite_home.running("serve", "--wait", "--port", "0") as server:
        assert "is not a database" in server.wait_for("StoreUnreachable")["problem"]
        (sqlite_home.folder / "duly.db").unlink()
        server.wait_for("Serving")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_signal_stops_the_wait(sqlite_home: Home, processes: str) -> None:
    away = f"postgresql://duly@127.0.0.1:{free_port()}/none"
    flags = ("--port", "0", "--processes", processes, "--database", away)
    with sqlite_home.running("serve", "--wait", *flags) as server:
        server.wait_for("StoreUnreachable")
        server.signal(signal.SIGTERM)
        assert server.end() == 0
    assert not any("Traceback" in line for line in server.log)


async def test_a_start_that_fails_after_the_store_was_reached_can_be_tried_again(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(sqlite_url, environment={})

    async def away(*_given: object) -> None:
        raise StoreUnavailable("it went away again")

    monkeypatch.setattr(app.declarations, "declare_all", away)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="went away again"):
            await app.open()
        with pytest.raises(StoreUnavailable, match="is not open"):
            await app.list()
