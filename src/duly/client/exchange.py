"""One exchange with a server: a request goes out on a connection of its own, an answer comes back.

Here the HTTP client is imported; it is of the standard library, which takes a tenth as long as the
one that webhooks go out with.
"""

from __future__ import annotations

import ssl
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

from duly.client.messages import Reply, Request, Unanswered
from duly.errors import BadSetting, StoreUnavailable
from duly.safe_text import shown_url

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 90.0
"""Longer than the longest of ours takes: an endpoint that is tried out has a minute."""


LONGEST_ANSWER = 256 << 20
"""Bytes; a page of 200 deliveries with the largest payloads is shorter."""


def exchanged(server: str, request: Request, *, longest: int | None = None) -> Reply:
    """Ask, and wait for the whole answer; StoreUnavailable says where it ended.

    An answer of more than `longest` bytes (LONGEST_ANSWER) is refused.
    """
    connection = _connected(server)
    try:
        path = urlsplit(server).path.rstrip("/") + request.path
        connection.request(request.method, path, request.body, dict(request.headers))
        # Closed by itself: until then it keeps the connection open.
        with connection.getresponse() as answer:
            return _reply(server, answer, longest or LONGEST_ANSWER)
    except (OSError, HTTPException) as error:
        told = str(error) or type(error).__name__
        raise Unanswered(f"the server at {shown_url(server)} did not answer: {told}") from error
    finally:
        connection.close()


def _reply(server: str, answer: HTTPResponse, longest: int) -> Reply:
    body = answer.read(longest + 1)
    if len(body) > longest:
        size = f"{longest >> 20} MB" if longest >= 1 << 20 else f"{longest >> 10} KB"
        raise StoreUnavailable(
            f"the answer of the server at {shown_url(server)} is longer than {size}; is it a duly "
            "server? If so, ask for less: --limit"
        )
    headers = {name.lower(): value for name, value in answer.getheaders()}
    return Reply(answer.status, headers, body)


def _connected(server: str) -> HTTPConnection:
    parts = urlsplit(server)
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadSetting("server", f"{error}") from None
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(host, port, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
        connection.sock.settimeout(ANSWER_SECONDS)
    except (OSError, UnicodeError) as error:
        connection.close()
        raise StoreUnavailable(_unreached(server, error)) from error
    return connection


def _unreached(server: str, error: Exception) -> str:
    server = shown_url(server)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server at {server} cannot be trusted: {error.verify_message}"
    told = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"cannot reach the server at {server}: {told}; does `duly serve` run there?"
