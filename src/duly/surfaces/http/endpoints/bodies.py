"""Endpoints as the API takes and shows them; a secret is told once, when it is made."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from duly.records.delivery import null
from duly.records.endpoint import Circuit, EndpointState
from duly.records.retry_plan import RetryPlan
from duly.surfaces.http.dead_letters.bodies import BUDGET_SECONDS, Seconds
from duly.surfaces.http.protocol.bodies import Moment

Secret = Annotated[str, Meta(description="whsec_ and base64; without it one is made")]


class NewEndpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An endpoint to be added."""

    EXAMPLE: ClassVar = {
        "name": "billing",
        "url": "https://example.org/in",
        "rate": 50,
    }
    name: str
    url: str
    secret: Secret | None = None
    description: str = ""
    method: str = "POST"
    headers: dict[str, str] = {}
    timeout: float | UnsetType = UNSET
    rate: Annotated[float, Meta(description="at most so many a second")] | None = None
    in_flight: Annotated[int, Meta(description="at most so many at once")] | None = None
    retry: RetryPlan | None = None

    def details(self) -> dict[str, Any]:
        """All but the name, as `app.endpoints.add` takes it."""
        given = msgspec.structs.asdict(self)
        return {name: each for name, each in given.items() if name != "name" and each is not UNSET}


class EndpointChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is to change of an endpoint; what is left out stays as it is."""

    EXAMPLE: ClassVar = {"rate": 100, "header_changes": {"x-team": "blue"}}
    url: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    method: str | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    header_changes: (
        Annotated[
            dict[str, str | None],
            Meta(description="headers to add or change, or with null to leave out"),
        ]
        | UnsetType
    ) = UNSET
    timeout: float | UnsetType = UNSET
    rate: float | UnsetType | None = UNSET
    in_flight: int | UnsetType | None = UNSET
    retry: RetryPlan | UnsetType | None = UNSET

    def details(self) -> dict[str, Any]:
        """What is given."""
        given = msgspec.structs.asdict(self)
        return {name: each for name, each in given.items() if each is not UNSET}


class CircuitRecord(msgspec.Struct, frozen=True):
    """Whether its deliveries pass."""

    state: Circuit
    failures: int
    failing_since: datetime | None
    opened_at: datetime | None
    probe_at: datetime | None


class SecretRecord(msgspec.Struct, frozen=True):
    """That there is a secret, and not what it is."""

    sealed_with: str | None
    signs_until: datetime | None


class EndpointRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint as it stands; headers that look like credentials are hidden."""

    name: str
    url: str
    description: str
    method: str
    headers: dict[str, str]
    timeout: float
    rate: float | None
    in_flight: int | None
    retry: RetryPlan
    state: EndpointState
    state_reason: str | None
    state_at: datetime
    circuit: CircuitRecord
    waiting: int
    under_way: int
    secrets: list[SecretRecord]
    secrets_problem: str | None
    created_at: datetime
    version: int


class EndpointWithSecret(EndpointRecord, frozen=True, kw_only=True):
    """An endpoint with its new secret, which is told this once."""

    secret: str


class Rotate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new secret, and for how long the old one signs beside it."""

    EXAMPLE: ClassVar = {"overlap_seconds": 3600}
    secret: Secret | None = None
    overlap_seconds: Annotated[float, Meta(ge=0, le=30 * 86400)] = 86400.0


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to send; without a payload, a test message."""

    EXAMPLE: ClassVar = {"payload": {"hello": "world"}}
    payload: msgspec.Raw = msgspec.field(default_factory=null)


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    name: str
    url: str
    ok: bool
    status: int | None
    timing: dict[str, float]
    excerpt: str
    truncated: bool
    note: Annotated[str, Meta(description="what was odd about the answer's body")]
    reason: str | None
    error: str | None


class RemoveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of those that wait."""

    cancel_waiting: Annotated[
        bool, Meta(description="cancel what waits for it; otherwise that is refused")
    ] = False


class Recover(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters of the endpoint to try again."""

    EXAMPLE: ClassVar = {"since": "2026-11-15T09:00:00Z", "rate": 50, "dry_run": True}
    since: Moment
    until: Moment | None = None
    rate: Annotated[float, Meta(gt=0, description="at most so many a second")] | None = None
    dry_run: bool = False
    seconds: Seconds = BUDGET_SECONDS
