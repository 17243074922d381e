"""`Idempotency-Key`: a POST that is sent again is answered again, and does nothing more.

A route says with `opt={"repeatable": True}` that carrying it out again with the same seed makes
nothing twice, and with `opt={"secret": True}` that its answer must not be kept.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from typing import Any, NamedTuple

from litestar import Request
from litestar.exceptions import HTTPException
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, ReceiveMessage, Scope, Send

from duly.domain.access.keys import Scope as KeyScope
from duly.errors import StoreUnavailable
from duly.ports import IdempotentRequest
from duly.surfaces.http.access.auth import Authenticator
from duly.surfaces.http.access.backpressure import body_of, place_for
from duly.surfaces.http.protocol.decoding import StrictRequest
from duly.surfaces.http.protocol.responses import send_answer
from duly.surfaces.http.protocol.turns import Turns

KEPT_HEADERS = ("content-type", "location", "etag")
Check = Callable[[Request[Any, Any, Any]], Awaitable[None]]
HASHED_AT_ONCE = 524_288
REPLAYED = {"idempotent-replayed": "true"}


async def _nothing(_request: Request[Any, Any, Any]) -> None:
    """There is nothing to refuse."""


class Idempotency(ASGIMiddleware):
    """Carries out a POST with a key once; `check` refuses what should not even be noted."""

    def __init__(self, check: Check = _nothing) -> None:
        self._check = check

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Answer from what is kept, or carry it out and keep the answer."""
        key = _key(scope)
        if key is None:
            await next_app(scope, receive, send)
            return
        request = StrictRequest(scope, receive, send)
        # The door first: whoever may not enter must not hear an answer that is kept for others.
        await request.route_handler.authorize_connection(connection=request)
        # What is refused out of hand is not noted: another server may be asked at once.
        await self._check(request)
        with body_of(request) as body:
            read = await _read(request, body)
            with place_for(request):
                await self._carry_out(key, request, read, next_app)

    async def _carry_out(
        self, key: str, request: StrictRequest, read: _Read, next_app: ASGIApp
    ) -> None:
        door: Authenticator = request.app.state.door
        app = door.app_for(request.scope["state"]["caller"])
        opt = request.route_handler.opt
        repeatable = opt.get("repeatable", False)
        asked = await app.requests.begin(key, read.fingerprint, repeatable=repeatable)
        if asked.status is not None:
            await _replay(asked, request.send)
            return
        request.scope["state"]["seed"] = asked.seed
        heard = _Answer()
        try:
            await next_app(request.scope, _once_more(read.parts, request.receive), heard)
        except BaseException:
            app.requests.leave(asked)
            raise
        answer = None if opt.get("secret") else heard.body
        # What was done is told, kept or not: told otherwise, the caller would have it done again.
        with contextlib.suppress(StoreUnavailable):
            await app.requests.finish(asked, heard.status, heard.kept_headers(), answer)
        for message in heard.messages:
            await request.send(message)


def _key(scope: Scope) -> str | None:
    # What only reads makes nothing twice; noted, it could take a key from whoever changes things.
    reads = scope["route_handler"].opt.get("scope") is KeyScope.READ
    if scope.get("method") != "POST" or reads:
        return None
    return next(
        (value.decode("latin-1") for name, value in scope["headers"] if name == b"idempotency-key"),
        None,
    )


class _Read(NamedTuple):
    """What tells this request from another with the same key, and its body as it came."""

    fingerprint: str
    parts: deque[bytes]


async def _read(request: StrictRequest, body: AsyncIterator[bytes]) -> _Read:
    digest = sha256(f"{request.method} {request.url.path}?{request.url.query}\n".encode())
    parts: deque[bytes] = deque()
    turns: Turns = request.app.state.turns
    hashed = 0
    # Not joined: of the largest body, that alone would keep everybody waiting.
    async for part in body:
        digest.update(part)
        parts.append(part)
        hashed += len(part)
        if hashed >= HASHED_AT_ONCE:
            hashed = 0
            await turns.next()
    return _Read(digest.hexdigest(), parts)


def _once_more(parts: deque[bytes], receive: Receive) -> Receive:
    """What brings a body that was read already, and then whatever comes after it."""

    async def received() -> ReceiveMessage:
        if not parts:
            return await receive()
        return {"type": "http.request", "body": parts.popleft(), "more_body": bool(parts)}

    return received


async def _replay(asked: IdempotentRequest, send: Send) -> None:
    if asked.answer is None:
        raise HTTPException(
            "this was done, and its answer held a secret, which is told only once; rotate it to "
            "have a new one",
            status_code=409,
        )
    assert asked.status is not None
    await send_answer(send, asked.status, asked.headers | REPLAYED, asked.answer)


class _Answer:
    """An answer that is held back until it is kept."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return next(
            each["status"] for each in self.messages if each["type"] == "http.response.start"
        )

    @property
    def body(self) -> bytes:
        return b"".join(
            each["body"] for each in self.messages if each["type"] == "http.response.body"
        )

    def kept_headers(self) -> dict[str, str]:
        found = [each for each in self.messages if each["type"] == "http.response.start"]
        headers = {name.decode(): value.decode() for name, value in found[0]["headers"]}
        return {name: headers[name] for name in KEPT_HEADERS if name in headers}
