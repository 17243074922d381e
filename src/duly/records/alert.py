"""Alerts: what an operator should look at."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class AlertKind(StrEnum):
    """The condition or event that an alert is about."""

    LATE_DELIVERIES = "late_deliveries"
    PLANNER_SILENT = "planner_silent"
    WORKERS_SILENT = "workers_silent"
    DEAD_LETTERS = "dead_letters"
    CIRCUIT_OPEN = "circuit_open"
    ENDPOINT_DISABLED = "endpoint_disabled"
    CLOCK_JUMPED = "clock_jumped"
    STORE_ERRORS = "store_errors"
    SWEPT_UP = "swept_up"
    STREAM_RELEASED = "stream_released"


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A stored alert; `subject` is the target or endpoint that it is about, if any."""

    id: int
    kind: AlertKind
    subject: str
    detail: str
    raised_at: datetime
    seen_at: datetime
    cleared_at: datetime | None = None
    reported: str = "nothing"


class AlertPage(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts, newest first; `next` is the `before` of the next page."""

    items: list[Alert]
    next: int | None = None
