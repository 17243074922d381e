"""Queries of `/v1/deliveries`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from duly.records.delivery import DeliveryFilter
from duly.surfaces.http.protocol.pages import Cursor, Limit, Most, Payloads


class DeliveryQuery(DeliveryFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which deliveries to list."""

    payloads: Payloads = False
    cursor: Cursor | None = None
    limit: Limit = 50

    def wanted(self) -> dict[str, Any]:
        """As `deliveries.page` takes it."""
        given = msgspec.structs.asdict(self)
        return given | {"before": given.pop("cursor")}


class LateQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which deliveries are late."""

    grace: (
        Annotated[
            float,
            Meta(ge=0, description="seconds of delay that do not count; default: the setting"),
        ]
        | None
    ) = None
    payloads: Payloads = False
    limit: Most = 50


class StuckQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which deliveries are stuck."""

    held_for: Annotated[float, Meta(ge=0, description="seconds that it may run")] = 300.0
    payloads: Payloads = False
    limit: Most = 50
