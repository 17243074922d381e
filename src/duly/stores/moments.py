"""Moments as whole microseconds since 1970, as they are sent to and stored in databases."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from duly.domain.time.offsets import EPOCH

MICROSECOND = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """One moment."""
    return (moment - EPOCH) // MICROSECOND


def all_microseconds(moments: Iterable[datetime]) -> list[int]:
    """A column of moments; without a call for each, since every settlement has two."""
    return [(each - EPOCH) // MICROSECOND for each in moments]
