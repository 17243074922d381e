"""The states of a delivery."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The state of a delivery."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"
