"""The responses of routes, and how they are sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Generic, TypeVar

import msgspec

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Content = TypeVar("Content")
JSON = "application/json"
encode = msgspec.json.Encoder().encode


class Answer(msgspec.Struct, Generic[Content], frozen=True):
    """Content with a status and headers; None is the route's own status."""

    content: Content
    status: int | None = None
    headers: dict[str, str] = {}


class Reply(msgspec.Struct, frozen=True):
    """A response as it is sent."""

    status: int
    headers: dict[str, str]
    body: bytes

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it; a location in it begins where the API is mounted."""
        headers = self.headers
        if scope.get("root_path") and "location" in headers:
            headers = headers | {"location": scope["root_path"] + headers["location"]}
        await send_answer(send, self.status, headers, self.body)


def reply(
    status: int, content: Any, headers: dict[str, str] | None = None, media: str = JSON
) -> Reply:
    """A response with that content; None has no body, bytes are sent unchanged."""
    if content is None:
        return Reply(status, headers or {}, b"")
    body = content if isinstance(content, bytes) else encode(content)
    return Reply(status, {"content-type": media, **(headers or {})}, body)


async def send_answer(send: Send, status: int, headers: dict[str, str], body: bytes) -> None:
    """Send a status, headers and a body of a known length."""
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    if status != 204:
        raw.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def head_only(send: Send) -> Send:
    """A `send` that omits the body of the response."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return sent
