"""Parses the head of a response before its body, so that a malformed body leaves the status.

aiohttp parses all bytes of a read together and drops the head if the body is malformed. It has no
public hook between the two, so its protocol class is extended;
`tests/transports/test_broken_answers.py` fails if aiohttp no longer uses this class.
"""

from __future__ import annotations

import re
from typing import Any

from aiohttp import ClientError, ClientPayloadError, ClientResponse, StreamReader
from aiohttp.client_proto import ResponseHandler
from aiohttp.helpers import set_exception
from aiohttp.http import HttpResponseParser, RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD

BLANK_LINE = re.compile(rb"\n\r?\n")
FRAMING = re.compile(rb"(?im)^(?:content-length|transfer-encoding)[ \t]*:[^\n]*\n")
"""The headers that only describe the body."""
PROTOCOL = b"HTTP/"
MOST_HEAD = 64 * 1024
"""Limit of bytes before the body, including interim responses."""
MOST_INTERIM = 20
"""Limit of interim responses (1xx) and blank lines before the response."""
SLICE = 16 * 1024
"""Bytes of a body parsed between two checks whether the response has ended."""
SWITCHING, NO_CONTENT = 101, 204


class AnswerRefused(ClientError):
    """The head of the response exceeds a limit."""


class AnswerProtocol(ResponseHandler):
    """One connection: passes a response's complete head to the parser, then its body."""

    def __init__(self, loop: Any) -> None:
        super().__init__(loop)
        self.oddity: str | None = None
        """The problem with the body of the current response."""
        self._has_head = False
        self._unparsed = b""
        self._head: bytes | None = None
        self._heads = self._head_bytes = 0
        """Number and total bytes of the heads received for the current request."""

    def set_response_params(self, **parameters: Any) -> None:
        """Prepare for the next response."""
        self.oddity, self._has_head, self._unparsed = None, False, b""
        self._heads = self._head_bytes = 0
        super().set_response_params(**parameters)

    def data_received(self, data: bytes) -> None:
        """Process received bytes: each head separately, then the body."""
        if self._has_head or self._parser is None:
            self._take_body(data)
            return
        search_from, unparsed, start = max(0, len(self._unparsed) - 2), self._unparsed + data, 0
        while not self._has_head and (blank := BLANK_LINE.search(unparsed, search_from)):
            self._take_head(unparsed[start : blank.end()])
            start = search_from = blank.end()
            if self.exception() is not None:
                return
        rest = unparsed[start:] if start else unparsed
        if self._has_head:
            self._unparsed = b""
            if rest:
                self._take_body(rest)
        elif self._head_bytes + len(rest) > MOST_HEAD:
            self._refuse(f"its head is longer than {MOST_HEAD // 1024} KiB")
        elif PROTOCOL.startswith(rest[: len(PROTOCOL)]):
            self._unparsed = rest
        else:
            self._unparsed = b""
            self._head_bytes += len(rest)
            self._take_body(rest)

    def _take_head(self, head: bytes) -> None:
        self._heads += 1
        self._head_bytes += len(head)
        if self._head_bytes > MOST_HEAD:
            self._refuse(f"its head is longer than {MOST_HEAD // 1024} KiB")
            return
        self._head = head
        super().data_received(head)
        self._head = None
        if not self._has_head and self._heads > MOST_INTERIM:
            self._refuse(f"more than {MOST_INTERIM} interim answers (1xx), and no other")

    def _refuse(self, problem: str) -> None:
        """Abandon the response and close the connection."""
        self._unparsed = b""
        if self.transport is not None:
            self.transport.close()
        if self.exception() is None:
            self.set_exception(AnswerRefused(problem))

    def _take_body(self, data: bytes) -> None:
        if len(data) <= SLICE:
            self._take_slice(data)
            return
        for start in range(0, len(data), SLICE):
            self._take_slice(data[start : start + SLICE])
            if self.exception() is not None:
                return

    def _take_slice(self, data: bytes) -> None:
        # aiohttp calls this without data to continue with its own buffer.
        if data and self._has_ended():
            # Not parsed: the peer could send thousands of unrequested responses.
            self.oddity = self.oddity or broken("more follows it")
            self.force_close()
            if self.transport is not None:
                self.transport.close()
            return
        super().data_received(data)
        error = self.exception()
        if error is None or not self._has_head:
            return
        self.oddity = self.oddity or broken(error)
        if self._payload is not None and not self._payload.is_eof():
            # The parser does not pass its error on to the reader of the body.
            set_exception(self._payload, ClientPayloadError(str(error)), error)

    def _has_ended(self) -> bool:
        """Whether the response is complete, so that further bytes belong to no request."""
        return self._has_head and self._payload is not None and self._payload.is_eof()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Pass a parsed response to the waiting request."""
        message = data[0]
        if self._has_head:
            self.oddity = self.oddity or broken("another answer follows it")
            self.force_close()
            return
        self._has_head = message.code == SWITCHING or not 100 <= message.code < 200
        if message.code == NO_CONTENT and _announces_body(message):
            # The body must not be read as the response to the next request.
            self.force_close()
            self.oddity = broken("an answer with status 204 has none, and this one announces one")
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Fail the response, unless only the headers that describe its body are wrong."""
        head, self._head = self._head, None
        message = None if head is None else self._without_framing(head)
        if message is None:
            super().set_exception(exc, *cause)
            return
        self.oddity = broken(exc)
        self.force_close()
        self.feed_data((message, EMPTY_PAYLOAD))

    def _without_framing(self, head: bytes) -> RawResponseMessage | None:
        """The head parsed without the headers that describe the body, or None."""
        rest = FRAMING.sub(b"", head)
        if rest == head:
            return None
        parser = HttpResponseParser(
            self, self._loop, MOST_HEAD, read_until_eof=True, auto_decompress=False
        )
        try:
            messages, _, _ = parser.feed_data(rest)
        except HttpProcessingError:
            return None
        return messages[0][0] if messages else None


class Answer(ClientResponse):
    """A response with the problem of its body."""

    _protocol_used: Any = None

    async def start(self, connection: Any) -> ClientResponse:
        """Read the head."""
        # Keep the protocol: the response drops its connection at the end of the body.
        self._protocol_used = connection.protocol
        return await super().start(connection)

    @property
    def oddity(self) -> str | None:
        """The problem with the body received so far, or None."""
        problem: str | None = self._protocol_used.oddity
        return problem


def broken(problem: object) -> str:
    """The attempt's note for a body that cannot be read."""
    return f"the body is broken: {' '.join(str(problem).split())}"[:500]


def _announces_body(message: RawResponseMessage) -> bool:
    headers = message.headers
    return "Transfer-Encoding" in headers or headers.get("Content-Length", "0") != "0"
