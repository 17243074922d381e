"""The bytes of a request: the part that is the same for all of a webhook, and each delivery's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from duly.domain.deliveries.delivery import Claimed
from duly.domain.endpoints.signatures import ID, SIGNATURE, TIMESTAMP, signatures
from duly.domain.schedules.schedule import decode_occasion
from duly.records.target import Webhook
from duly.version import __version__

OWN = (
    f"{ID}: %b\r\n{TIMESTAMP}: %d\r\nIdempotency-Key: %b\r\nX-Idempotency-Key: %b\r\n"
    "webhook-attempt: %d\r\ncontent-length: %d\r\n"
).encode()
"""The headers that every delivery has."""
STANDARD_PORTS = {False: 80, True: 443}


class Origin(NamedTuple):
    """Where a connection leads; an absolute name ends with a dot."""

    host: str
    port: int
    is_secure: bool

    @property
    def name(self) -> str:
        """The name of the host in certificates and headers."""
        return self.host.rstrip(".")

    @property
    def shown(self) -> str:
        """The Host header: without the standard port."""
        named = f"[{self.host}]" if ":" in self.host else self.name
        return named if self.port == STANDARD_PORTS[self.is_secure] else f"{named}:{self.port}"


def origin_of(url: str) -> Origin:
    """The origin of a checked URL."""
    parts = urlsplit(url)
    is_secure = parts.scheme == "https"
    return Origin(parts.hostname or "", parts.port or STANDARD_PORTS[is_secure], is_secure)


class Prepared(msgspec.Struct, frozen=True):
    """What all requests to a webhook have in common."""

    origin: Origin
    head: bytes
    """The request line and the headers that do not differ."""
    names: frozenset[str]
    """The names of the headers that the webhook sets, in lower case."""


def prepared(webhook: Webhook) -> Prepared:
    """The part of a request that is the same for all deliveries to a webhook."""
    parts, origin = urlsplit(webhook.url), origin_of(webhook.url)
    query = f"?{parts.query}" if parts.query else ""
    headers = {
        "host": origin.shown,
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"duly/{__version__}",
    }
    given = {name.lower(): name for name in webhook.headers}
    lines = [
        f"{webhook.method} {parts.path or '/'}{query} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items() if name not in given),
        *(f"{name}: {webhook.headers[name]}" for name in given.values()),
    ]
    head = "\r\n".join([*lines, ""]).encode()
    return Prepared(origin, head, frozenset(given))


def request_of(
    to: Prepared,
    claimed: Claimed,
    keys: Sequence[bytes],
    timestamp: int,
    carried: Mapping[str, str],
) -> bytes:
    """The request of one attempt; `carried` are the headers of the trace it belongs to."""
    id, body = claimed.id.encode(), claimed.payload
    lines = [to.head, OWN % (id, timestamp, id, id, claimed.attempt + 1, len(body))]
    if keys:
        lines.append(_line(SIGNATURE, signatures(keys, claimed.id, timestamp, body)))
    if claimed.occasion is not None:
        occasion = decode_occasion(claimed.occasion)
        lines.append(_line("webhook-scheduled-for", occasion.scheduled_for.isoformat()))
        lines.append(_line("webhook-merged", str(occasion.merged)))
    for name, value in carried.items():
        if name.lower() not in to.names:
            lines.append(_line(name, value))
    return b"".join((*lines, b"\r\n", body))


def _line(name: str, value: str) -> bytes:
    if "\r" in value or "\n" in value:
        raise ValueError(f"the header {name} has a line break")
    return f"{name}: {value}\r\n".encode()
