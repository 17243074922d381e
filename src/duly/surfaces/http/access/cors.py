"""Cross-origin requests: which pages of other sites may read the responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from duly.settings import Settings
from duly.surfaces.http.protocol.request import CALLER
from duly.surfaces.http.protocol.responses import Message, Send

ANY = "*"
METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
ALLOWED = b"authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id"
EXPOSED = b"etag, location, retry-after, idempotent-replayed, allow, www-authenticate"
KEPT_SECONDS = b"600"
NAMED, ASKED = b"origin", b"access-control-request-method"
Header = tuple[bytes, bytes]


class Cors:
    """The allowed origins, by name or all of them.

    Credentials are never allowed: a page has to know a key, and a browser sends nothing by itself
    that would authenticate it.
    """

    def __init__(self, origins: str) -> None:
        self._origins = frozenset(origins.lower().replace(",", " ").split())

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """None if no other site is allowed."""
        return cls(settings.cors_origins) if settings.cors_origins.strip(" ,") else None

    def names(self, origin: str) -> bool:
        """Whether the origin is allowed by name."""
        return origin.lower() in self._origins

    def allows(self, origin: str) -> bool:
        """Whether the origin is allowed."""
        return ANY in self._origins or self.names(origin)

    def is_preflight(self, scope: Any) -> bool:
        """Whether this is a browser's preflight request, which carries no key."""
        if scope.get("method") != "OPTIONS":
            return False
        headers = dict(scope["headers"])
        return ASKED in headers and self.allows(headers.get(NAMED, b"").decode("latin-1"))

    async def answer_preflight(self, scope: Any, send: Send) -> None:
        """Answer a preflight request; the request itself is still authenticated."""
        headers = [
            *self._allowing(scope),
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", ALLOWED),
            (b"access-control-max-age", KEPT_SECONDS),
        ]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def sender(self, scope: Any, send: Send) -> Send:
        """A `send` that adds the CORS headers to the response."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [*self._allowing(scope), (b"access-control-expose-headers", EXPOSED)]
                message = {**message, "headers": [*_kept(message["headers"], scope), *more]}
            await send(message)

        return sent

    def _allowing(self, scope: Any) -> list[Header]:
        origin = dict(scope["headers"]).get(NAMED)
        vary = (b"vary", b"Origin")
        # Without an Origin nothing needs to be allowed, but a cache could reuse the response.
        if origin is None or not self.allows(origin.decode("latin-1")):
            return [vary]
        return [(b"access-control-allow-origin", b"*" if ANY in self._origins else origin), vary]


def _kept(headers: Iterable[Header], scope: Mapping[str, Any]) -> list[Header]:
    """The headers; a response to a caller on this machine without a key must not be cached."""
    caller = scope.get(CALLER)
    if caller is None or caller.key is not None:
        return list(headers)
    others = [each for each in headers if each[0].lower() != b"cache-control"]
    return [*others, (b"cache-control", b"no-store")]
