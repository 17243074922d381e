"""Endpoints: their states."""

from __future__ import annotations

from enum import StrEnum


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
