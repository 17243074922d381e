"""`Idempotency-Key`: a POST that is sent again is answered again, and does nothing more.

A route says with `repeatable=True` that carrying it out again with the same seed makes nothing
twice, and with `secret=True` that its answer must not be kept.
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
CarryOut = Callable[[Request], Awaitable[Reply]]


def key_of(request: Request) -> str | None:
    """Its Idempotency-Key, if it is a request for which one counts."""
    # A read makes nothing twice; stored, it could use up a key that is meant for a change.
    if request.route.method != "POST" or request.route.scope is KeyScope.READ:
        return None
    return request.header(b"idempotency-key")


async def once(key: str, app: Namespace, request: Request, carry_out: CarryOut) -> Reply:
    """The answer that is kept for a key, or the one to carrying it out, which is then kept.

    The caller was authenticated before: stored answers of others must not be returned.
    """
    with request.counted_body() as body:
        read = await _read(request, body)
        with request.place():
            return await _once(key, app, request, read, carry_out)


async def _once(
    key: str, app: Namespace, request: Request, read: _Read, carry_out: CarryOut
) -> Reply:
    route = request.route
    asked = await app.requests.begin(key, read.fingerprint, repeatable=route.repeatable)
    if asked.status is not None:
        return _replayed(asked)
    request.seed = asked.seed
    request.receive = _once_more(read.parts, request.receive)
    try:
        answer = await carry_out(request)
    except BaseException:
        app.requests.leave(asked)
        raise
    kept = {name: answer.headers[name] for name in KEPT_HEADERS if name in answer.headers}
    body = None if route.secret else answer.body
    # The answer is returned even if it could not be stored: an error would make the caller repeat.
    with contextlib.suppress(StoreUnavailable):
        await app.requests.finish(asked, answer.status, kept, body)
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
    turns = request.shared.turns
    hashed = 0
    # Not joined: of the largest body, that alone would keep everybody waiting.
    async for part in body:
        digest.update(part)
        parts.append(part)
        hashed += len(part)
        if hashed >= HASHED_AT_ONCE:
            hashed = 0
            await turns.next()
    # At least one message: a reader of an empty body must not wait for more.
    return _Read(digest.hexdigest(), parts or deque([b""]))


def _once_more(parts: deque[bytes], receive: Receive) -> Receive:
    """A `receive` that returns a body that was read already, then the messages that follow."""

    async def received() -> Message:
        if not parts:
            return await receive()
        return {"type": "http.request", "body": parts.popleft(), "more_body": bool(parts)}

    return received


def _replayed(asked: IdempotentRequest) -> Reply:
    if asked.answer is None:
        raise HTTPException(
            409,
            "this was done, and its answer held a secret, which is told only once; rotate it to "
            "have a new one",
        )
    assert asked.status is not None
    return Reply(asked.status, asked.headers | REPLAYED, asked.answer)
