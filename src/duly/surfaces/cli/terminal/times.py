"""Times and durations on the command line."""

from __future__ import annotations

from datetime import datetime

from duly.domain.checks import checked_moment
from duly.domain.time.durations import MILLISECONDS, duration
from duly.errors import InvalidInput


def moment(field: str, text: str) -> datetime:
    """A moment in ISO form, with its zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            field, f"{text!r} is not a moment; write it as in 2026-11-16T09:00+01:00"
        ) from None
    if found.tzinfo is None:
        raise InvalidInput(
            field,
            f"{text!r} has no time zone; add one, as in 2026-11-16T09:00+01:00 or "
            "2026-11-16T08:00Z",
        )
    return found


def moment_or_ago(field: str, text: str, now: datetime) -> datetime:
    """A moment, or how long ago it is."""
    if "-" in text or ":" in text:
        return checked_moment(field, moment(field, text))
    try:
        return checked_moment(field, now - duration(field, text))
    except OverflowError:
        raise InvalidInput(field, f"{text!r} ago is too early") from None


def spelled(seconds: float) -> str:
    """A duration as text, in its two largest units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    left, words = round(seconds), []
    for unit in ("w", "d", "h", "m", "s"):
        count, left = divmod(left, MILLISECONDS[unit] // 1000)
        if count:
            words.append(f"{count}{unit}")
    return "".join(words[:2])
