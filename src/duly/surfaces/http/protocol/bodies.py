"""What the routes take and answer, as structs: they are checked by them and documented by them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from duly.domain.checks import checked_wait

Moment = Annotated[datetime, Meta(tz=True)]
Kind = TypeVar("Kind", bound=msgspec.Struct)


class Why(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why it is done; stored and shown later."""

    EXAMPLE: ClassVar = {"reason": "maintenance"}
    reason: str | None = None


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A note; stored and shown later."""

    EXAMPLE: ClassVar = {"note": "the customer has left"}
    note: str | None = None


def seconds(field: str, given: float) -> timedelta:
    """A number of seconds as a duration, if it is an allowed waiting time."""
    return timedelta(seconds=checked_wait(field, given))


def shown(found: object, kind: type[Kind], **more: Any) -> Kind:
    """A value of the domain as the API shows it: the fields of that kind, and what more is said."""
    names = [name for name in kind.__struct_fields__ if name not in more]
    return kind(**{name: getattr(found, name) for name in names}, **more)
