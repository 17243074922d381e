"""Cross-origin requests: which other sites' pages may read what the port answers them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from duly.settings import Settings
from duly.surfaces.http.protocol.request import CALLER
from duly.surfaces.http.protocol.responses import Message, Send

ANY = "*"
METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
TAKEN = b"authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id"
SHOWN = b"etag, location, retry-after, idempotent-replayed, allow, www-authenticate"
KEPT_SECONDS = b"600"
NAMED, ASKED = b"origin", b"access-control-request-method"
Header = tuple[bytes, bytes]


class Cors:
    """The origins that are let in, by name or all of them.

    Credentials are never allowed: a caller shows a key, which a page has to know. A browser sends
    nothing by itself that would open anything here.
    """

    def __init__(self, origins: str) -> None:
        self._origins = frozenset(origins.lower().replace(",", " ").split())

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """None when no other site's page may read anything."""
        return cls(settings.cors_origins) if settings.cors_origins.strip(" ,") else None

    def names(self, origin: str) -> bool:
        """Whether the origin is let in by its name."""
        return origin.lower() in self._origins

    def allows(self, origin: str) -> bool:
        """Whether the origin is let in."""
        return ANY in self._origins or self.names(origin)

    def is_preflight(self, scope: Any) -> bool:
        """Whether a browser asks if a page may make a request; nobody has a key then."""
        if scope.get("method") != "OPTIONS":
            return False
        headers = dict(scope["headers"])
        return ASKED in headers and self.allows(headers.get(NAMED, b"").decode("latin-1"))

    async def answer_preflight(self, scope: Any, send: Send) -> None:
        """Say what such a page may ask; the door still asks who it is."""
        headers = [
            *self._allowing(scope),
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", TAKEN),
            (b"access-control-max-age", KEPT_SECONDS),
        ]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def sender(self, scope: Any, send: Send) -> Send:
        """The way back, on which every answer says whose page may read it."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [*self._allowing(scope), (b"access-control-expose-headers", SHOWN)]
                message = {**message, "headers": [*_kept(message["headers"], scope), *more]}
            await send(message)

        return sent

    def _allowing(self, scope: Any) -> list[Header]:
        origin = dict(scope["headers"]).get(NAMED)
        vary = (b"vary", b"Origin")
        # Who names no origin needs no leave; a cache could hand it on to a page that does.
        if origin is None or not self.allows(origin.decode("latin-1")):
            return [vary]
        return [(b"access-control-allow-origin", b"*" if ANY in self._origins else origin), vary]


def _kept(headers: Iterable[Header], scope: Mapping[str, Any]) -> list[Header]:
    """The headers; what somebody on this machine was told without a key, no cache may keep."""
    caller = scope.get(CALLER)
    if caller is None or caller.key is not None:
        return list(headers)
    others = [each for each in headers if each[0].lower() != b"cache-control"]
    return [*others, (b"cache-control", b"no-store")]
