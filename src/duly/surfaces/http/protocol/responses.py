"""Answers that are sent as they are, where a route's way to one would be a detour."""

from __future__ import annotations

from collections.abc import Mapping

from litestar.types import Message, Send


async def send_answer(send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Send a status, headers and a body of a known length."""
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    raw.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def head_only(send: Send) -> Send:
    """The way back of an answer without its body, which ends with its head however long it is."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return sent
