"""`Idempotency-Key`: a repeated POST gets the first response, and does nothing more.

`repeatable=True` on a route: repeating it with the same seed creates nothing twice. `secret=True`:
its response must not be stored.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from typing import NamedTuple

from starlette.exceptions import HTTPException

from duly.errors import StoreUnavailable
from duly.ports import IdempotentRequest
from duly.records.key import Scope as KeyScope
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import Message, Receive, Reply

KEPT_HEADERS = ("content-type", "location", "etag")
HASHED_AT_ONCE = 524_288
REPLAYED = {"idempotent-replayed": "true"}
Execute = Callable[[Request], Awaitable[Reply]]


def key_of(request: Request) -> str | None:
    """The Idempotency-Key of a request to which it applies."""
    # A read creates nothing; if stored, it could use up a key that is meant for a change.
    if request.route.method != "POST" or request.route.scope is KeyScope.READ:
        return None
    return request.header(b"idempotency-key")


async def once(key: str, app: Namespace, request: Request, execute: Execute) -> Reply:
    """The stored response for a key, or the response to the request, which is then stored.

    The caller was authenticated before: stored responses to others must not be returned.
    """
    with request.counted_body() as body:
        read = await _read(request, body)
        with request.place():
            return await _once(key, app, request, read, execute)


async def _once(key: str, app: Namespace, request: Request, read: _Read, execute: Execute) -> Reply:
    route = request.route
    recorded = await app.requests.begin(key, read.fingerprint, repeatable=route.repeatable)
    if recorded.status is not None:
        return _replayed(recorded)
    request.seed = recorded.seed
    request.receive = _replaying(read.parts, request.receive)
    try:
        answer = await execute(request)
    except BaseException:
        app.requests.leave(recorded)
        raise
    kept = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
    body = None if route.secret else answer.body
    # Returned even if it could not be stored: after an error the caller would repeat the request.
    with contextlib.suppress(StoreUnavailable):
        await app.requests.finish(recorded, answer.status, kept, body)
    return answer


class _Read(NamedTuple):
    """The fingerprint that distinguishes requests with the same key, and the body as received."""

    fingerprint: str
    parts: deque[bytes]


async def _read(request: Request, body: AsyncIterator[bytes]) -> _Read:
    scope = request.scope
    digest = sha256(
        b"%s %s?%s\n" % (scope["method"].encode(), request.path.encode(), scope["query_string"])
    )
    parts: deque[bytes] = deque()
    hashed = 0
    # Not joined: for the largest bodies that alone would block the event loop.
    async for part in body:
        parts.append(part)
        # A server may pass the whole body as one part, which is hashed in slices too.
        for start in range(0, len(part), HASHED_AT_ONCE):
            piece = memoryview(part)[start : start + HASHED_AT_ONCE]
            digest.update(piece)
            hashed += len(piece)
            if hashed >= HASHED_AT_ONCE:
                hashed = 0
                await request.shared.turns.next()
    # At least one message: a reader of an empty body must not wait for more.
    return _Read(digest.hexdigest(), parts or deque([b""]))


def _replaying(parts: deque[bytes], receive: Receive) -> Receive:
    """A `receive` that returns a body read before, then the messages that follow."""

    async def received() -> Message:
        if not parts:
            return await receive()
        return {"type": "http.request", "body": parts.popleft(), "more_body": bool(parts)}

    return received


def _replayed(recorded: IdempotentRequest) -> Reply:
    if recorded.answer is None:
        raise HTTPException(
            409,
            "the request was executed, and its response contained a secret, which is returned only "
            "once; rotate it to get a new one",
        )
    assert recorded.status is not None
    return Reply(recorded.status, recorded.headers | REPLAYED, recorded.answer)
