"""Moments and durations as people write them on a command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from duly.domain.errors import InvalidInput

UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
PART = r"(\d+(?:\.\d+)?)(ms|[smhdw])"


def duration(field: str, text: str) -> timedelta:
    """A duration such as `5s`, `250ms` or `1h30m`."""
    if not re.fullmatch(f"(?:{PART})+", text):
        raise InvalidInput(field, f"{text!r} is no duration; write 250ms, 5s, 2m, 1h30m, 7d or 2w")
    try:
        parts = (float(number) * UNITS[unit] for number, unit in re.findall(PART, text))
        return sum(parts, timedelta())
    except OverflowError:
        raise InvalidInput(field, f"{text!r} is longer than can be told") from None


def moment(field: str, text: str) -> datetime:
    """A moment in ISO form, with its zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            field, f"{text!r} is no moment; write it as in 2026-11-16T09:00+01:00"
        ) from None
    if found.tzinfo is None:
        raise InvalidInput(
            field,
            f"{text!r} has no time zone; add one, as in 2026-11-16T09:00+01:00 or "
            "2026-11-16T08:00Z",
        )
    return found


def spelled(seconds: float) -> str:
    """A duration for people, in its largest whole units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    left, words = round(seconds), []
    for unit in ("w", "d", "h", "m", "s"):
        count, left = divmod(left, round(UNITS[unit].total_seconds()))
        if count:
            words.append(f"{count}{unit}")
    return "".join(words[:2])
