"""Unique keys: of deliveries with the same one, only one waits at a time."""

from __future__ import annotations

from enum import StrEnum


class Unique(StrEnum):
    """Among which deliveries a key is unique."""

    PENDING = "pending"
    """Those that wait: a delivery that runs or has ended leaves the key free."""


class OnDuplicate(StrEnum):
    """What becomes of a delivery if another one with the same unique key waits."""

    KEEP = "keep"
    """It is dropped; the waiting one stays as it is."""
    REPLACE = "replace"
    """The waiting one gets its contents."""
    POSTPONE = "postpone"
    """The waiting one gets its contents, and is due when it would have been due."""
