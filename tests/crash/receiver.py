"""A threaded server that receives webhooks, records them, and answers with a given status.

It does not run on the test's loop, since reading the store blocks that.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from typing import Any

import msgspec


class ReceivedRequest(msgspec.Struct, frozen=True):
    """One request, and whether another with the same id was running at that time."""

    id: str
    keys: frozenset[str]
    attempt: int
    body: bytes
    arrived_at: datetime
    overlaps: bool


class Receiver:
    """Received requests in order; it answers `status`, or not at all while that is None."""

    def __init__(self) -> None:
        self.received: list[ReceivedRequest] = []
        self.status: int | None = 204
        self._running: list[str] = []
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    @contextmanager
    def exchange(self, headers: Any, body: bytes) -> Iterator[None]:
        """Record a request; it is running until just before it is answered."""
        id = headers["webhook-id"]
        keys = frozenset({headers["Idempotency-Key"], headers["X-Idempotency-Key"]})
        attempt = int(headers["webhook-attempt"])
        with self._changed:
            overlaps = id in self._running
            self.received.append(
                ReceivedRequest(id, keys, attempt, body, datetime.now(UTC), overlaps)
            )
            self._running.append(id)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(id)
                self._changed.notify_all()

    def wait_for(self, held: int, within: float = 30.0) -> None:
        """Wait until this many requests are running."""

        def is_reached() -> bool:
            return len(self._running) == held

        with self._changed:
            assert self._changed.wait_for(is_reached, within), f"not {held} but {self._running}"

    def wait_for_ids(self, many: int, within: float = 30.0) -> None:
        """Wait until this many deliveries were received, each any number of times."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: len({each.id for each in self.received}) >= many, within
            ), f"only {len({each.id for each in self.received})} of {many} were received"

    def attempts(self) -> dict[str, list[int]]:
        """The numbers of the received attempts, for each id in order."""
        ordered = sorted(self.received, key=lambda each: each.id)
        return {
            id: [each.attempt for each in of_one]
            for id, of_one in groupby(ordered, lambda each: each.id)
        }

    def assert_only_repeats(self, bodies: Mapping[str, bytes]) -> None:
        """Every request had its delivery's body and id; no two with one id overlapped."""
        for each in self.received:
            assert each.body == bodies[each.id]
            assert each.keys == {each.id}
            assert not each.overlaps

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with receiver.exchange(self.headers, body):
                self.close_connection = self._caller_left()
            if not self.close_connection:
                self.send_response(receiver.status or 500)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def _caller_left(self) -> bool:
            """Whether the caller closed the connection while no answer was to be given."""
            while receiver.status is None:
                if select.select([self.connection], [], [], 0.02)[0]:
                    return True
            return False

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler
