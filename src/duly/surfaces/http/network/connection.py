"""One connection to the HTTP port: uvicorn's protocol, with limits on an unfinished request.

No key was checked yet while a request is read, so everything kept of it is bounded here: the
request line, the headers, trailers, and how many requests are sent ahead.
"""

from __future__ import annotations

from asyncio import Transport
from functools import partial
from http import HTTPStatus
from typing import Any

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from duly.surfaces.http.network.connections import Connections, Phase, Refusal, Seen
from duly.surfaces.http.protocol.problems import MEDIA_TYPE, Problem, later

LINE_BYTES = 8_192
"""Limit of a URL, which is nearly all of a request line."""
HEAD_BYTES = 16_384
"""Limit of a URL and all headers together."""
MOST_HEADERS = 100
MOST_AHEAD = 16
"""Requests that may be sent before the first of them is answered."""
PROBES = ("/health", "/ready")
"""Answered before the first requests of other new connections."""
LINGER_BYTES = 1_048_576
"""Bytes read from a refused client: closed earlier, it could not read the answer."""

LONG_LINE = Refusal(
    414, "too large", f"the URL is longer than {LINE_BYTES} bytes; send a shorter one"
)
MANY_HEADERS = Refusal(431, "too large", f"there are more than {MOST_HEADERS} headers; send fewer")
LARGE_HEAD = Refusal(
    431,
    "too large",
    f"the URL and headers, or the trailers, have more than {HEAD_BYTES} bytes; send less",
)
FAR_AHEAD = Refusal(
    400, "too large", f"more than {MOST_AHEAD} requests wait for their answers; send fewer at once"
)
NOT_HTTP = Refusal(400, "not HTTP", "this is not an HTTP/1.1 request")


class Refused(Exception):
    """Ends the parsing of a request; a new one each time, since it keeps parsed data alive."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


class Connection(HttpToolsProtocol):
    """One of the server's `connections`."""

    transport: Transport

    def __init__(self, connections: Connections, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._all = connections
        self.received = 0
        self.body_bytes = 0
        self.seen: Seen | None = None
        self._answering: RequestResponseCycle | None = None
        """The request that is being answered; the client may have sent others ahead."""
        self._is_new = True
        """Whether no request was begun."""
        self._is_queued = False
        """Whether its first request waits to be begun."""
        self._is_arriving = False
        """Whether the body of the newest request is incomplete, answered or not."""
        self._is_refused = False
        self._is_last = False
        """Whether nothing more is read: complete requests are answered, then it is closed."""
        self._discarded = 0
        self._framing = 0
        """Bytes of unfinished headers or trailers, and perhaps of what came just before."""
        self._is_long = False
        """Whether the parsed data may contain headers that are too large."""
        self._plain_head = b""
        """The headers of a request that asked for an upgrade, without the upgrade."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Called when it is open."""
        super().connection_made(transport)
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when it is closed."""
        self._all.discard(self)
        super().connection_lost(exc)
        # uvicorn marks only the newest request as disconnected.
        waiting = [cycle for cycle, _ in self.pipeline]
        self.pipeline.clear()
        for cycle in [*waiting, *([self._answering] if self._answering else [])]:
            cycle.disconnected = True
            cycle.message_event.set()
        self._answering = None

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, in parts if they are more than headers may have."""
        self.received += len(data)
        if self._is_refused or self._is_last:
            self._discard(len(data))
            return
        try:
            if self._framing + len(data) <= HEAD_BYTES:
                self._parse(data)
            else:
                self._parse_parts(data)
        except Refused as refused:
            self.refuse(refused.refusal)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self.refuse(cause.refusal if isinstance(cause, Refused) else NOT_HTTP)

    def _parse(self, data: bytes | memoryview) -> None:
        unparsed: bytes | memoryview | None = data
        while unparsed is not None:
            unparsed = self._after_upgrade(unparsed)
        cycle = self.cycle
        if cycle is None or cycle.more_body or cycle.scope is not self.scope:
            self._check_unfinished(len(data))

    def _after_upgrade(self, data: bytes | memoryview) -> bytes | memoryview | None:
        """Parse up to the end of headers that ask for an upgrade; returns the bytes after them.

        No other protocol is supported, so the request is answered as if it had not asked. The
        parser would not read its body but take it for the next request: a new parser gets the
        same headers without the upgrade.
        """
        try:
            self.parser.feed_data(data)
            return None
        except httptools.HttpParserUpgrade as upgrade:
            end: int = upgrade.args[0]
        # Outside the `except`: errors raised here must keep their own cause.
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(self._plain_head)
        return data[end:]

    def _parse_parts(self, data: bytes) -> None:
        self._is_long = True
        whole = memoryview(data)
        for start in range(0, len(data), HEAD_BYTES):
            self._parse(whole[start : start + HEAD_BYTES])
        self._is_long = False

    def _check_unfinished(self, parsed: int) -> None:
        """Refuse headers or trailers that are already too large."""
        self._framing += parsed
        # Twice the limit: bytes before the headers may be included.
        if self._framing > 2 * HEAD_BYTES:
            raise Refused(LARGE_HEAD)
        if self.scope is not None:
            self._check_counts()

    def _check_counts(self) -> None:
        if len(self.url) > LINE_BYTES:
            raise Refused(LONG_LINE)
        if len(self.headers) > MOST_HEADERS:
            raise Refused(MANY_HEADERS)

    def on_headers_complete(self) -> None:
        """Called by the parser: answer the request, unless its headers are too large."""
        if len(self.headers) > MOST_HEADERS or len(self.url) > LINE_BYTES:
            self._check_counts()
        if self._is_long and _size(self.url, self.headers) > HEAD_BYTES:
            raise Refused(LARGE_HEAD)
        if len(self.pipeline) >= MOST_AHEAD:
            raise Refused(FAR_AHEAD)
        self._framing = 0
        if self.parser.should_upgrade():
            self._pass_over_upgrade()
            return
        self.body_bytes = 0
        self._is_arriving = True
        super().on_headers_complete()
        # Trailers are parsed as headers, but must not become headers of the request.
        self.headers = []

    def _pass_over_upgrade(self) -> None:
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise Refused(NOT_HTTP)
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (method, self.url, version)]
        lines += [b"%s: %s" % each for each in self.headers if each[0] != b"upgrade"]
        self._plain_head = b"\r\n".join([*lines, b"", b""])

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a request."""
        if not self.parser.should_upgrade():
            self._is_arriving = False
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        """Called by the parser with a part of the body."""
        self._framing = 0
        self.body_bytes += len(body)
        super().on_body(body)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        if self._is_new and cycle.scope["path"] not in PROBES:
            self._is_queued = True
            self._all.first_requests.begin(partial(self._begin, cycle, app))
        else:
            super()._start_asgi_task(cycle, app)
        self._is_new = False

    def _begin(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._is_queued:
            self._is_queued = False
            super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Called after an answer: begin the next request.

        Unlike uvicorn's, it sets no timer: the sweep closes idle connections.
        """
        self.server_state.total_requests += 1
        self._answering = None
        if self.transport.is_closing():
            return
        if self._discarded <= LINGER_BYTES:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def phase(self) -> Phase:
        """What it waits for now."""
        cycle = self.cycle
        if self._is_refused:
            return Phase.REFUSED
        if self.scope is None:
            return Phase.SILENT
        if cycle is None or (cycle.response_complete and cycle.scope is not self.scope):
            return Phase.HEAD
        if self._is_queued:
            return Phase.QUEUED
        if cycle.response_complete:
            if self.unsent():
                return Phase.STALLED
            return Phase.SURPLUS if self._is_arriving else Phase.IDLE
        if self.flow.write_paused:
            return Phase.STALLED
        # While the server does not read, or has not sent 100 Continue, the client is not slow.
        is_read = not self.flow.read_paused and not cycle.waiting_for_100_continue
        return Phase.BODY if cycle.more_body and is_read else Phase.ANSWERING

    def request(self) -> object:
        """Identifies the current request."""
        return self.scope

    def unsent(self) -> int:
        """Bytes of answers that the client has not read."""
        return self.transport.get_write_buffer_size()

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a problem and close soon; at once if another answer is being sent.

        If complete requests wait for their answers, those are sent instead.
        """
        if self.transport.is_closing():
            return
        self._all.count(refusal.kind)
        cycle: RequestResponseCycle | None = self.cycle
        if self._is_queued:
            # It was never begun, so there is nothing to wait for.
            self._is_queued = False
            self._answering = cycle = None
            self.pipeline.clear()
        if cycle is not None and not cycle.response_complete and not self._is_arriving:
            self._is_last = True
            cycle.keep_alive = False
            # Later bytes are dropped, and must not count as unfinished headers.
            self.scope = cycle.scope
            # Read and dropped: if closed with unread bytes, the client could lose its answers.
            self.flow.resume_reading()
            return
        self._is_refused = True
        if cycle is not None and not cycle.response_complete:
            is_alone = not cycle.response_started and cycle.scope is self.scope
            if self.pipeline or not is_alone:
                self.cut()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_reading()
        self.transport.write(self._answer(refusal))
        self.transport.write_eof()

    def _answer(self, refusal: Refusal) -> bytes:
        phrase = HTTPStatus(refusal.status).phrase
        problem = Problem(refusal.status, phrase, refusal.detail)
        body = msgspec.json.encode(problem)
        headers = [
            *((name.decode(), value.decode()) for name, value in self.server_state.default_headers),
            ("content-type", MEDIA_TYPE),
            ("content-length", str(len(body))),
            *later(problem).items(),
            ("connection", "close"),
        ]
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        return f"HTTP/1.1 {refusal.status} {phrase}\r\n{head}\r\n".encode("latin-1") + body

    def _discard(self, received: int) -> None:
        self._discarded += received
        if self._discarded <= LINGER_BYTES:
            return
        if self._is_last:
            self.flow.pause_reading()
        else:
            self.cut()

    def close(self) -> None:
        """Close it after its answers are sent."""
        self.transport.close()

    def cut(self) -> None:
        """Close it at once."""
        self.transport.abort()


def _size(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) + len(": \r\n") for name, value in headers)
