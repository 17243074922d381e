"""Queries of `/v1/deliveries`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from duly.errors import InvalidInput
from duly.records.delivery import DeliveryFilter, DeliverySort
from duly.surfaces.http.protocol.bulk import BUDGET_SECONDS, Seconds
from duly.surfaces.http.protocol.pages import Cursor, Limit, Most, Payloads


class DeliveryQuery(DeliveryFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which deliveries to list."""

    sort: Annotated[DeliverySort, Meta(description="lateness: the most late first")] | None = None
    payloads: Payloads = False
    cursor: Cursor | None = None
    limit: Limit = 50

    def wanted(self) -> dict[str, Any]:
        """As `deliveries.page` takes it."""
        given = msgspec.structs.asdict(self)
        return given | {"before": given.pop("cursor")}


class WaitQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long to wait for a delivery's end."""

    wait: Annotated[str, Meta(description="a duration up to 60s, as in 30s")] | None = None


class CountsQuery(DeliveryFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which deliveries to count."""


class PendingMove(DeliveryFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which pending deliveries to move, by a filter or all of them."""

    EXAMPLE: ClassVar = {"target": "email", "dry_run": True}
    all: Annotated[bool, Meta(description="all there are, without a filter")] = False
    seconds: Seconds = BUDGET_SECONDS
    dry_run: Annotated[bool, Meta(description="only count, up to 10,000")] = False

    def filter(self) -> dict[str, Any]:
        """As `deliveries.cancel_all` takes it; refuses all deliveries unless `all` says so."""
        names = DeliveryFilter.__struct_fields__
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if (not given.keys() - {"until", "state"}) != self.all:
            raise InvalidInput("all", "give a filter, or all: true and none")
        return given


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
