"""One exchange with a server: a request goes out on a connection of its own, an answer comes back.

Here the HTTP client is imported; it is of the standard library, which takes a tenth as long as the
one that webhooks go out with.
"""

from __future__ import annotations

import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from duly.domain.errors import BadSetting, StoreUnavailable
from duly.surfaces.remote.messages import Reply, Request, Unanswered

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 90.0
"""Longer than the longest of ours takes: an endpoint that is tried out has a minute."""


def exchanged(server: str, request: Request) -> Reply:
    """Ask, and wait for the whole answer; StoreUnavailable says where it ended."""
    connection = _connected(server)
    try:
        path = urlsplit(server).path.rstrip("/") + request.path
        connection.request(request.method, path, request.body, dict(request.headers))
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, headers, answer.read())
    except (OSError, HTTPException) as error:
        told = str(error) or type(error).__name__
        raise Unanswered(f"the server at {server} did not answer: {told}") from error
    finally:
        connection.close()


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
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server at {server} cannot be trusted: {error.verify_message}"
    told = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"cannot reach the server at {server}: {told}; does `duly serve` run there?"
