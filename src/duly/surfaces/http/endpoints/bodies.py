"""Request bodies and queries of endpoints, other than the records."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from duly.records.delivery import null
from duly.records.endpoint import Secret
from duly.surfaces.http.protocol.bodies import Moment
from duly.surfaces.http.protocol.bulk import BUDGET_SECONDS, Seconds


class Rotate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new secret, and how long requests are signed with the old one too."""

    EXAMPLE: ClassVar = {"overlap_seconds": 3600}
    secret: Secret | None = None
    overlap_seconds: Annotated[float, Meta(ge=0, le=30 * 86400)] = 86400.0


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The payload to send; by default a test message."""

    EXAMPLE: ClassVar = {"payload": {"hello": "world"}}
    payload: msgspec.Raw = msgspec.field(default_factory=null)


class RemoveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to deliveries that wait."""

    cancel_waiting: Annotated[
        bool, Meta(description="cancel deliveries that wait for it, instead of a conflict")
    ] = False


class Recover(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters of the endpoint to retry."""

    EXAMPLE: ClassVar = {"since": "2026-11-15T09:00:00Z", "rate": 50, "dry_run": True}
    since: Moment
    until: Moment | None = None
    rate: Annotated[float, Meta(gt=0, description="the most deliveries per second")] | None = None
    dry_run: bool = False
    seconds: Seconds = BUDGET_SECONDS
