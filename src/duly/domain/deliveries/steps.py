"""Named steps of a delivery, whose results are kept when a later step fails."""

from __future__ import annotations

from duly.domain.checks import checked_text

NAME_LIMIT = 100
MOST_STEPS = 1000


def checked_step(name: object) -> str:
    """A step's name."""
    return checked_text("step", name, NAME_LIMIT)
