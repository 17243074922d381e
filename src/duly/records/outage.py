"""Outages: when nothing was attempted although deliveries were due."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """A span in which no attempt ran although deliveries were due and waited."""

    began_at: datetime
    ended_at: Annotated[datetime, Meta(description="null if it goes on")] | None
    seconds: Annotated[float, Meta(description="how long it took, until now if it goes on")]
    late: Annotated[int, Meta(description="deliveries that were due before its end, and waited")]
    waiting: Annotated[int, Meta(description="those of them that still wait")]
    largest_late_seconds: Annotated[
        float, Meta(description="from due to the first attempt, or now")
    ]
    median_late_seconds: float
    worked_off_at: (
        Annotated[datetime, Meta(description="when the last of them started; null if some wait")]
        | None
    )


class OutageReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outages that ended after `since`, latest first."""

    since: datetime
    until: datetime
    at_least: Annotated[float, Meta(description="shorter ones are left out, in seconds")]
    counted_up_to: Annotated[int, Meta(description="how many deliveries are examined at most")]
    capped: Annotated[bool, Meta(description="there are more deliveries, or more outages")] = False
    outages: list[Outage] = []
