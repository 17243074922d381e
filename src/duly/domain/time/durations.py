"""Durations as text (`90s`, `1h30m`, `2d`), exact to the microsecond."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from duly.domain.checks import checked_wait
from duly.errors import InvalidInput, quoted

MILLISECONDS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
PART = r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|[smhdw])"
LONGEST_TEXT = 100


def duration(field: str, text: str) -> timedelta:
    """A duration such as `250ms`, `90s` or `1h30m`."""
    if len(text) > LONGEST_TEXT or not re.fullmatch(f"(?:{PART})+", text):
        raise InvalidInput(field, f"{quoted(text)} is no duration; write 90s, 15m, 1h30m, 2d or 2w")
    parts = (Decimal(number) * MILLISECONDS[unit] for number, unit in re.findall(PART, text))
    total = sum(parts, Decimal())
    try:
        return timedelta(microseconds=int(total * 1000))
    except OverflowError:
        raise InvalidInput(field, f"{text!r} is too long") from None


def seconds_of(field: str, value: float | timedelta | str) -> float:
    """A duration in seconds, given as seconds, as a timedelta or as text."""
    return checked_wait(field, duration(field, value) if isinstance(value, str) else value)
