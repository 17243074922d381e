"""Structs of several routes; requests are checked with them, and OpenAPI is made from them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from duly.domain.checks import checked_wait

Moment = Annotated[datetime, Meta(tz=True)]


class Why(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reason; stored and shown later."""

    EXAMPLE: ClassVar = {"reason": "maintenance"}
    reason: str | None = None


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A note; stored and shown later."""

    EXAMPLE: ClassVar = {"note": "the customer has left"}
    note: str | None = None


def seconds(field: str, given: float) -> timedelta:
    """A number of seconds as a duration, if it is an allowed waiting time."""
    return timedelta(seconds=checked_wait(field, given))
