"""How far an attempt is, as its handler reports."""

from __future__ import annotations

from duly.domain.checks import checked_text
from duly.errors import InvalidInput, quoted

LONGEST_NOTE = 200


def checked_share(value: object) -> float:
    """How much is done, from 0 to 1."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:  # type: ignore[operator]
        raise InvalidInput("progress", f"{quoted(value)} is not a number from 0 to 1")
    return float(value)  # type: ignore[arg-type]


def checked_note(value: object) -> str | None:
    """A few words about the progress."""
    return None if value is None else checked_text("note", value, LONGEST_NOTE)
