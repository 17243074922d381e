"""A server on threads of its own that takes webhooks, remembers each, and answers as it is told.

It is not on the test's loop, since looking into the books blocks that.
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


class Taken(msgspec.Struct, frozen=True):
    """One request as it came in, and whether another of its id was under way just then."""

    id: str
    keys: frozenset[str]
    attempt: int
    body: bytes
    arrived_at: datetime
    overlaps: bool


class Receiver:
    """What came, in its order; it answers `status`, or nobody while that is None."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        self.status: int | None = 204
        self._under_way: list[str] = []
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    @contextmanager
    def exchange(self, headers: Any, body: bytes) -> Iterator[None]:
        """Remember a request; it is under way until just before it is answered."""
        id = headers["webhook-id"]
        keys = frozenset({headers["Idempotency-Key"], headers["X-Idempotency-Key"]})
        attempt = int(headers["webhook-attempt"])
        with self._changed:
            overlaps = id in self._under_way
            self.taken.append(Taken(id, keys, attempt, body, datetime.now(UTC), overlaps))
            self._under_way.append(id)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._under_way.remove(id)
                self._changed.notify_all()

    def wait_for(self, held: int, within: float = 30.0) -> None:
        """Wait until so many requests are under way."""

        def is_so() -> bool:
            return len(self._under_way) == held

        with self._changed:
            assert self._changed.wait_for(is_so, within), f"not {held} but {self._under_way}"

    def wait_for_ids(self, many: int, within: float = 30.0) -> None:
        """Wait until so many deliveries have come, however often each."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: len({each.id for each in self.taken}) >= many, within
            ), f"only {len({each.id for each in self.taken})} of {many} came"

    def attempts(self) -> dict[str, list[int]]:
        """The numbers of the attempts that came, for each id in their order."""
        ordered = sorted(self.taken, key=lambda each: each.id)
        return {
            id: [each.attempt for each in of_one]
            for id, of_one in groupby(ordered, lambda each: each.id)
        }

    def assert_only_repeats(self, bodies: Mapping[str, bytes]) -> None:
        """Every request carried its delivery's bytes under its id; no two of one met."""
        for each in self.taken:
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
                self.close_connection = self._is_left_alone()
            if not self.close_connection:
                self.send_response(receiver.status or 500)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def _is_left_alone(self) -> bool:
            """Whether the caller went away while no answer was to be given."""
            while receiver.status is None:
                if select.select([self.connection], [], [], 0.02)[0]:
                    return True
            return False

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
