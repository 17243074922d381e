"""The cursor of a list by lateness.

The lateness of a waiting delivery grows. A list therefore takes it as of the moment of its first
page, and the cursor of each page carries that moment: so no delivery is listed twice or left out.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from duly.domain.checks import LATEST, checked_id
from duly.domain.moments import EPOCH
from duly.errors import InvalidInput, quoted

MICROSECOND = timedelta(microseconds=1)


class LatenessCursor(msgspec.Struct, frozen=True):
    """The moment of the first page, and the last delivery of the previous one."""

    as_of: datetime
    id: str

    def __str__(self) -> str:
        return f"{self.id}@{(self.as_of - EPOCH) // MICROSECOND}"


def cursor_in(text: str) -> LatenessCursor:
    """The cursor from its text; InvalidInput if it is none."""
    id, _, moment = text.partition("@")
    if not (moment.isascii() and moment.isdigit()) or int(moment) >= LATEST.timestamp() * 1e6:
        raise InvalidInput(
            "before", f"{quoted(text)} is no cursor of a list by lateness; give the page's `next`"
        )
    return LatenessCursor(EPOCH + int(moment) * MICROSECOND, checked_id(id))


def checked_cursor(value: object) -> str:
    """The text of a cursor, checked."""
    return str(cursor_in(str(value)))
