"""How answers arrive: the head is parsed before the body, so that a broken body leaves the status.

The client parses all bytes of a read together, and when the body is malformed it drops the head
that came with it. There is no public hook between the two, so its protocol is extended;
`tests/transports/test_broken_answers.py` fails when the client no longer takes this one.
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
"""The headers that describe the body only."""
PROTOCOL = b"HTTP/"
MOST_HEAD = 64 * 1024
"""Bytes before the body of an answer, those of interim answers included."""
MOST_INTERIM = 20
"""Interim answers (1xx), and blank lines, before an answer."""
SLICE = 16 * 1024
"""Bytes of a body that are parsed before it is asked whether the answer has ended."""
SWITCHING, NO_CONTENT = 101, 204


class AnswerRefused(ClientError):
    """No answer begins in what arrives, however long it goes on."""


class AnswerProtocol(ResponseHandler):
    """One connection: an answer's head reaches the parser whole, and its body afterwards."""

    def __init__(self, loop: Any) -> None:
        super().__init__(loop)
        self.oddity: str | None = None
        """What is wrong with the body of the present answer."""
        self._has_head = False
        self._held = b""
        self._head: bytes | None = None
        self._heads = self._head_bytes = 0
        """How many heads came for the present request, and how long they are together."""

    def set_response_params(self, **given: Any) -> None:
        """Be ready for the next answer."""
        self.oddity, self._has_head, self._held = None, False, b""
        self._heads = self._head_bytes = 0
        super().set_response_params(**given)

    def data_received(self, data: bytes) -> None:
        """Take in what arrived: heads one by one, then the body."""
        if self._has_head or self._parser is None:
            self._take_body(data)
            return
        looked, held, start = max(0, len(self._held) - 2), self._held + data, 0
        while not self._has_head and (blank := BLANK_LINE.search(held, looked)):
            self._take_head(held[start : blank.end()])
            start = looked = blank.end()
            if self.exception() is not None:
                return
        rest = held[start:] if start else held
        if self._has_head:
            self._held = b""
            if rest:
                self._take_body(rest)
        elif self._head_bytes + len(rest) > MOST_HEAD:
            self._refuse(f"its head is longer than {MOST_HEAD // 1024} KiB")
        elif PROTOCOL.startswith(rest[: len(PROTOCOL)]):
            self._held = rest
        else:
            self._held = b""
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
        """Give the answer up, and read no more of it."""
        self._held = b""
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
        # Without data the client goes on with what it has left.
        if data and self._has_ended():
            # Not even parsed: there could be thousands of answers that nobody asked for.
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
            # The parser tells nobody who reads the body that it gave up.
            set_exception(self._payload, ClientPayloadError(str(error)), error)

    def _has_ended(self) -> bool:
        """Whether the answer is complete, so that what comes now belongs to no request."""
        return self._has_head and self._payload is not None and self._payload.is_eof()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Hand an answer to whoever waits for it."""
        message = data[0]
        if self._has_head:
            self.oddity = self.oddity or broken("another answer follows it")
            self.force_close()
            return
        self._has_head = message.code == SWITCHING or not 100 <= message.code < 200
        if message.code == NO_CONTENT and _announces_body(message):
            # What follows must not be taken for the answer to the next request.
            self.force_close()
            self.oddity = broken("an answer with status 204 has none, and this one announces one")
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """End the answer with an error, unless only the headers about its body are wrong."""
        head, self._head = self._head, None
        message = None if head is None else self._without_framing(head)
        if message is None:
            super().set_exception(exc, *cause)
            return
        self.oddity = broken(exc)
        self.force_close()
        self.feed_data((message, EMPTY_PAYLOAD))

    def _without_framing(self, head: bytes) -> RawResponseMessage | None:
        """The head, if it can be read once nothing is said about the body."""
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
    """An answer that knows what is wrong with its body."""

    _arrives: Any = None

    async def start(self, connection: Any) -> ClientResponse:
        """Read the head."""
        # A connection is given back at the end of a body, and forgotten here.
        self._arrives = connection.protocol
        return await super().start(connection)

    @property
    def oddity(self) -> str | None:
        """What is wrong with its body, as far as it arrived."""
        found: str | None = self._arrives.oddity
        return found


def broken(problem: object) -> str:
    """What an attempt's record says of a body that cannot be read."""
    return f"the body is broken: {' '.join(str(problem).split())}"[:500]


def _announces_body(message: RawResponseMessage) -> bool:
    headers = message.headers
    return "Transfer-Encoding" in headers or headers.get("Content-Length", "0") != "0"
