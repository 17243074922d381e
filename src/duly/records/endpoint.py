"""Endpoints: named webhooks, and what a caller may set of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, TypedDict

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duly.records.limit import PerKey
from duly.records.partial import partial_of
from duly.records.retry_plan import RetryPlan
from duly.records.target import DEFAULT_TIMEOUT, shown_headers
from duly.safe_text import shown_url


class EndpointState(StrEnum):
    """Whether deliveries are sent; if the endpoint is paused or disabled, they wait."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


class Circuit(StrEnum):
    """Whether deliveries are admitted."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class EndpointOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a caller may set of an endpoint."""

    url: str
    description: str = ""
    method: str = "POST"
    headers: dict[str, str] = {}
    timeout: float = DEFAULT_TIMEOUT
    rate: float | None = None
    in_flight: int | None = None
    limits: PerKey | None = None
    retry: RetryPlan | None = None

    def __repr__(self) -> str:
        # A repr may appear in a log: it has no credentials.
        fields = msgspec.structs.asdict(self)
        fields |= {"url": shown_url(self.url), "headers": shown_headers(self.headers)}
        shown = (f"{name}={value!r}" for name, value in fields.items() if name != "secret")
        return f"{type(self).__name__}({', '.join(shown)})"


class EndpointKeywords(TypedDict, total=False):
    """The options besides the URL, as keyword arguments."""

    description: str
    method: str
    headers: Mapping[str, str]
    timeout: float
    rate: float | None
    in_flight: int | None
    limits: PerKey | None
    retry: RetryPlan | None


class EndpointChangeKeywords(EndpointKeywords, total=False):
    """All options as keyword arguments."""

    url: str


Secret = Annotated[str, Meta(description="whsec_ and base64; without it one is made")]


class NewEndpoint(EndpointOptions, frozen=True, kw_only=True):
    """An endpoint to add."""

    EXAMPLE: ClassVar = {"name": "billing", "url": "https://example.org/in", "rate": 50}
    name: str
    secret: Secret | None = None


class EndpointChange(partial_of(EndpointOptions, "EndpointChange")):  # type: ignore[misc]
    """Changes of an endpoint; fields that are left out stay as they are."""

    EXAMPLE: ClassVar = {"rate": 100, "header_changes": {"x-team": "blue"}}
    header_changes: (
        Annotated[
            dict[str, str | None],
            Meta(description="headers to add or change; null removes one"),
        ]
        | UnsetType
    ) = UNSET


class CircuitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an endpoint's circuit."""

    state: Circuit
    failures: int
    failing_since: datetime | None
    opened_at: datetime | None
    probe_at: datetime | None


class SecretStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A secret that signs now, without the secret: the id of its key, and when it ends."""

    sealed_with: str | None
    signs_until: datetime | None


class Endpoint(EndpointOptions, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """An endpoint; headers that look like credentials are hidden, as are query values of the URL.

    `retry` is the plan in force. `waiting` and `under_way` count its unfinished deliveries.
    """

    retry: RetryPlan
    name: str
    state: EndpointState
    state_reason: str | None
    state_at: datetime
    circuit: CircuitStatus
    waiting: int
    under_way: int
    secrets: list[SecretStatus]
    secrets_problem: str | None
    created_at: datetime
    version: int


class EndpointWithSecret(Endpoint, frozen=True, kw_only=True):
    """An endpoint with its new secret, which is shown only once."""

    secret: str


class EndpointTest(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a test request."""

    name: str
    url: str
    ok: bool
    status: int | None = None
    timing: dict[str, float] = {}
    excerpt: str = ""
    truncated: bool = False
    note: Annotated[str, Meta(description="what was odd about the body of the answer")] = ""
    reason: str | None = None
    error: str | None = None
