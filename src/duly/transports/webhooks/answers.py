"""The answer to one request, as far as it was received, and how it is parsed.

The head is parsed apart from the body, so that a malformed body leaves the status.
"""

from __future__ import annotations

import re
from typing import Any

import httptools

from duly.transports.webhooks.timing import ExchangeTiming

EXCERPT_BYTES = 16 * 1024
MOST_BODY = 8 * EXCERPT_BYTES
"""Limit of bytes after the head, including those between the chunks of a body."""
MOST_HEAD = 64 * 1024
"""Limit of bytes before the body, including interim answers."""
MOST_INTERIM = 8
"""Limit of interim answers (1xx) and blank lines before the answer."""
SLICE = 16 * 1024
"""Bytes of a body parsed between two checks whether the answer has ended."""
BLANK_LINE = re.compile(rb"\n\r?\n")
FRAMING = re.compile(rb"(?im)^(?:content-length|transfer-encoding)[ \t]*:[^\n]*\n")
"""The headers that only describe the body."""
PROTOCOL = b"HTTP/"
SWITCHING, NO_CONTENT, NOT_MODIFIED = 101, 204, 304


class AnswerRefused(Exception):
    """What was received is no HTTP answer, or its head exceeds a limit."""


class Heard:
    """The part of an answer received so far; once there is a status, it decides the outcome."""

    __slots__ = ("body", "note", "retry_after", "status", "timing", "truncated")

    def __init__(self, timing: ExchangeTiming) -> None:
        self.timing = timing
        self.status: int | None = None
        self.retry_after: str | None = None
        self.body = bytearray()
        self.truncated = False
        self.note = ""

    def odd(self, problem: object) -> None:
        """Note a problem of the body, unless there is a note already."""
        self.note = self.note or broken(problem)


class AnswerParser:
    """Parses the answers that arrive on one connection, one after the other.

    AnswerRefused is raised if no answer can be made of the bytes.
    """

    def __init__(self) -> None:
        self._parser = self._new_parser()
        self._heard: Heard
        self.is_whole = True
        self.can_last = False
        """Whether the connection can be used again after this answer."""

    def _new_parser(self) -> Any:
        parser = httptools.HttpResponseParser(self)
        # As far as other clients go: what arrived must not be sent again for an odd header.
        parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        return parser

    def expect(self, heard: Heard) -> None:
        """Prepare for the next answer, which is written to `heard`."""
        self._heard = heard
        self.is_whole = self.can_last = self._is_framed = self._has_length = False
        self._is_nonsense = False
        self._unparsed = b""
        self._heads = self._head_bytes = self._body_bytes = 0

    def take(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._heard.status is not None:
            self._take_body(data)
            return
        search_from, unparsed, start = max(0, len(self._unparsed) - 2), self._unparsed + data, 0
        while blank := BLANK_LINE.search(unparsed, search_from):
            end = blank.end()
            self._take_head(unparsed[start:end])
            if self._heard.status is not None:
                if end < len(unparsed):
                    self._take_body(unparsed[end:])
                return
            start = search_from = end
        self._keep(unparsed[start:])

    def end(self) -> bool:
        """The peer has closed the connection; returns whether it has answered.

        An answer without a length ends with its connection.
        """
        if self._heard.status is None:
            return False
        if self._is_framed:
            self._heard.odd("the connection was closed before its end")
        return True

    def _keep(self, rest: bytes) -> None:
        """Keep bytes of a head that is not complete."""
        if self._head_bytes + len(rest) > MOST_HEAD:
            raise AnswerRefused(f"its head is longer than {MOST_HEAD // 1024} KiB")
        _check_protocol(rest)
        self._unparsed = rest

    def _take_head(self, head: bytes) -> None:
        self._heads += 1
        self._head_bytes += len(head)
        if self._head_bytes > MOST_HEAD:
            raise AnswerRefused(f"its head is longer than {MOST_HEAD // 1024} KiB")
        _check_protocol(head)
        try:
            self._parser.feed_data(head)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            if self._heard.status is None:
                self._take_without_framing(head, error)
        if self._is_nonsense:
            raise AnswerRefused("its status is below 100")
        if self._heard.status is None and self._heads > MOST_INTERIM:
            raise AnswerRefused(f"more than {MOST_INTERIM} interim answers (1xx), and no other")

    def _take_without_framing(self, head: bytes, error: Exception) -> None:
        """Parse a head without the headers that describe the body, since one of them is wrong."""
        self._parser = self._new_parser()
        try:
            self._parser.feed_data(FRAMING.sub(b"", head))
        except httptools.HttpParserError:
            raise AnswerRefused(str(error)) from error
        if self._heard.status is None:  # an interim answer, after which nothing is certain
            raise AnswerRefused(str(error)) from error
        self._heard.odd(error)
        self.is_whole, self.can_last = True, False

    def _take_body(self, data: bytes) -> None:
        for start in range(0, len(data), SLICE):
            if self.is_whole:
                # Not parsed: the peer could send thousands of unrequested answers.
                self._follow()
                return
            self._take_slice(data[start : start + SLICE] if len(data) > SLICE else data)

    def _take_slice(self, data: bytes) -> None:
        heard = self._heard
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            heard.odd(error)
            self.is_whole, self.can_last = True, False
        self._body_bytes += len(data)
        if len(heard.body) > EXCERPT_BYTES or (self._body_bytes > MOST_BODY and not self.is_whole):
            heard.truncated = self.is_whole = True
            self.can_last = False

    def _follow(self) -> None:
        self._heard.odd("more follows it")
        self.can_last = False

    def on_message_begin(self) -> None:
        """httptools: another answer begins."""
        if self.is_whole:
            self._follow()

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: a header; after the body, a trailer."""
        if self._heard.status is not None:
            return
        size = len(name)
        if size == 11 and name.lower() == b"retry-after":
            self._heard.retry_after = value.decode("latin-1")
        elif size == 14 and name.lower() == b"content-length":
            self._is_framed, self._has_length = True, value != b"0"
        elif size == 17 and name.lower() == b"transfer-encoding":
            self._is_framed = value.lower().endswith(b"chunked")
            self._has_length = True

    def on_headers_complete(self) -> None:
        """httptools: the head is complete; that of an interim answer (1xx) does not count."""
        heard, status = self._heard, self._parser.get_status_code()
        if heard.status is not None:
            return
        if status < 100:
            self._is_nonsense = True
        if status < 200 and status != SWITCHING:
            heard.retry_after = None
            self._is_framed = self._has_length = False
            return
        heard.timing.mark("first_byte")
        heard.status = status
        self.can_last = status != SWITCHING and self._parser.should_keep_alive()
        if status in (NO_CONTENT, NOT_MODIFIED) and self._has_length:
            # If a body comes, it must not be read as the answer to the next request.
            self.can_last = False
            if status == NO_CONTENT:
                heard.odd("an answer with status 204 has none, and this one announces one")

    def on_body(self, body: bytes) -> None:
        """httptools: a part of the body."""
        if self._heard.status is not None and not self.is_whole:
            self._heard.body += body

    def on_message_complete(self) -> None:
        """httptools: the answer is complete; an interim one does not count."""
        self.is_whole = self._heard.status is not None


def broken(problem: object) -> str:
    """The attempt's note for a body that cannot be read."""
    return f"the body is broken: {' '.join(str(problem).split())}"[:500]


def _check_protocol(received: bytes) -> None:
    """Refuse bytes that cannot be the beginning of an answer."""
    begin = received[: len(PROTOCOL)]
    if begin != PROTOCOL and not PROTOCOL.startswith(received.lstrip(b"\r\n")[: len(PROTOCOL)]):
        raise AnswerRefused("this is not HTTP")
