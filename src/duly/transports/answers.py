"""How answers arrive: the head is parsed before the body, so that a broken body leaves the status.

The client parses all bytes of a read together, and when the body is malformed it drops the head
that came with it. There is no public hook between the two, so its protocol is extended;
`tests/transports/test_broken_answers.py` fails when the client no longer takes this one.
"""

from __future__ import annotations

import re
from typing import Any

from aiohttp import ClientPayloadError, ClientResponse, StreamReader
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
"""Bytes that are held back for a whole head; the parser refuses what is longer."""
NO_CONTENT = 204


class AnswerProtocol(ResponseHandler):
    """One connection: an answer's head reaches the parser whole, and its body afterwards."""

    def __init__(self, loop: Any) -> None:
        super().__init__(loop)
        self.oddity: str | None = None
        """What is wrong with the body of the present answer."""
        self._has_head = False
        self._held = b""
        self._head: bytes | None = None

    def set_response_params(self, **given: Any) -> None:
        """Be ready for the next answer."""
        self.oddity, self._has_head, self._held = None, False, b""
        super().set_response_params(**given)

    def data_received(self, data: bytes) -> None:
        """Take in what arrived: heads one by one, then the body."""
        if self._has_head or self._parser is None:
            self._take_body(data)
            return
        looked, self._held = max(0, len(self._held) - 2), self._held + data
        while not self._has_head and (blank := BLANK_LINE.search(self._held, looked)):
            head, self._held, looked = self._held[: blank.end()], self._held[blank.end() :], 0
            self._take_head(head)
        if self._has_head or not self._may_become_a_head():
            rest, self._held = self._held, b""
            if rest:
                self._take_body(rest)

    def _may_become_a_head(self) -> bool:
        begins_well = PROTOCOL.startswith(self._held[: len(PROTOCOL)])
        return begins_well and len(self._held) <= MOST_HEAD

    def _take_head(self, head: bytes) -> None:
        self._head = head
        super().data_received(head)
        self._head = None

    def _take_body(self, data: bytes) -> None:
        super().data_received(data)
        error = self.exception()
        if error is None or not self._has_head:
            return
        self.oddity = self.oddity or broken(error)
        if self._payload is not None and not self._payload.is_eof():
            # The parser tells nobody who reads the body that it gave up.
            set_exception(self._payload, ClientPayloadError(str(error)), error)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Hand an answer to whoever waits for it."""
        message = data[0]
        self._has_head = not 100 <= message.code < 200
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
