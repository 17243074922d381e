"""Limits of targets: how many deliveries a second, and how many at once."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta


class PerKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits that hold for each value of a key by itself, for example for each customer."""

    EXAMPLE: ClassVar = {"name": "customer", "in_flight": 2, "rate": 5}
    name: Annotated[str, Meta(description="what the key means, as in customer")]
    in_flight: Annotated[
        int | None, Meta(description="the most deliveries with the same key that run at once")
    ] = None
    rate: Annotated[
        float | None, Meta(description="the most deliveries a second with the same key")
    ] = None


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one target, and how far they are used now.

    `target` is a handler's name, or `endpoint:NAME`.
    """

    target: str
    rate: float | None
    in_flight: int | None
    per_key: PerKey | None
    in_flight_now: Annotated[int, Meta(description="deliveries of the target that run now")]
    waiting: Annotated[
        int, Meta(description="deliveries that are due and not started, counted up to 10000")
    ]
    next_at: (
        Annotated[datetime, Meta(description="when the rate lets the next one start; null if now")]
        | None
    )
    declared_at: (
        Annotated[
            datetime, Meta(description="when code declared or changed them; null for an endpoint")
        ]
        | None
    )


class LimitKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a target with limits for each key, and how far they are used now."""

    key: str
    in_flight_now: Annotated[int, Meta(description="deliveries with the key that run now")]
    waiting: Annotated[
        int, Meta(description="deliveries with the key that are not started, counted up to 10000")
    ]
    next_at: (
        Annotated[datetime, Meta(description="when the rate lets the next one start; null if now")]
        | None
    )
