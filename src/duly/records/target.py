"""Targets of deliveries: webhooks and endpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duly.safe_text import shown_url

SHORTEST_TIMEOUT, LONGEST_TIMEOUT, DEFAULT_TIMEOUT = 1.0, 60.0, 30.0


CREDENTIAL = re.compile("auth|cookie|token|secret|key|pass|credential|signature", re.IGNORECASE)
"""Matches the names of headers that probably contain a credential."""


HIDDEN = "***"


SEALED_MARK = "\x01"
"""Prefix of the stored value of a sealed header; a sent value never begins with it."""


class Webhook(msgspec.Struct, frozen=True, omit_defaults=True):
    """A URL that receives deliveries, and how they are sent there."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = {}
    timeout: float = DEFAULT_TIMEOUT

    @property
    def origin(self) -> str:
        """Scheme, host and port: URLs that are likely to be slow or down together."""
        return origin_of(self.url)

    def __repr__(self) -> str:
        # A repr may appear in a log, and headers contain credentials.
        headers = shown_headers(self.headers)
        return f"Webhook({self.method} {shown_url(self.url)}, headers={headers})"


def origin_of(url: str) -> str:
    """Scheme, host and port of a checked URL, in normal form."""
    parts = urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    port = "" if parts.port in (None, default) else f":{parts.port}"
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers to show: credentials and sealed values are hidden."""
    return {name: HIDDEN if is_hidden(name, value) else value for name, value in headers.items()}


def is_hidden(name: str, value: str) -> bool:
    """Whether a header looks like a credential or is sealed."""
    return bool(CREDENTIAL.search(name)) or value.startswith(SEALED_MARK)


PREFIX = "endpoint:"


class EndpointTarget(msgspec.Struct, frozen=True):
    """A named endpoint as the target of deliveries and schedules."""

    name: str

    @property
    def target(self) -> str:
        """The target's name in the store."""
        return PREFIX + self.name


class HandlerTarget:
    """A handler as the target of deliveries and schedules, in place of its name."""

    name: str


Target = str | Webhook | EndpointTarget | HandlerTarget
"""A handler or its name, a webhook, or an endpoint."""


class Destination(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a webhook goes: to a `url`, or to an `endpoint` by its name."""

    url: str | None = None
    endpoint: str | None = None
    method: str | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    timeout: float | UnsetType = UNSET


GivenTarget = Annotated[
    str | Destination,
    Meta(description="a handler's name, {url, method, headers, timeout} or {endpoint}"),
]
"""A target in a request."""
