"""Named steps of a delivery, whose results are kept when a later step fails."""

from __future__ import annotations

from typing import Any

import msgspec

from duly.domain.checks import checked_text
from duly.domain.deliveries.payloads import payload_bytes
from duly.errors import InvalidInput

NAME_LIMIT = 100
RESULT_LIMIT = 64 * 1024
MOST_STEPS = 1000


def checked_step(name: object) -> str:
    """A step's name."""
    return checked_text("step", name, NAME_LIMIT)


def kept_result(value: Any) -> msgspec.Raw:
    """A step's result as JSON for the store."""
    try:
        return msgspec.Raw(payload_bytes(value, RESULT_LIMIT))
    except InvalidInput as error:
        raise InvalidInput("result", error.problem) from error
