"""Checks of input values: names, keys, tags, ids, moments and limits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from uuid import UUID

from duly.errors import InvalidInput, quoted
from duly.records.delivery import LEAST_PRIORITY, MOST_PRIORITY
from duly.records.target import HandlerTarget

KEY_LIMIT = 255
TAGS_LIMIT = 20
MOST_SHOWN = 20
LONGEST_PAGE = 100_000
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}\Z")
HEXADECIMAL = re.compile(r"[0-9a-f]{1,32}\Z")
SHORTEST_BEGINNING = 4
LONGEST_WAIT = timedelta(days=366 * 100)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


def checked_text(field: str, value: object, limit: int = KEY_LIMIT) -> str:
    """A printable text of 1 to `limit` bytes, which both stores keep unchanged."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"{quoted(value)} is not text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidInput(field, "it holds a lone surrogate, which is not text") from None
    if not 1 <= size <= limit:
        raise InvalidInput(field, f"it has {size} bytes; give 1 to {limit}")
    if not value.isprintable():
        raise InvalidInput(field, "it holds characters that cannot be printed; remove them")
    return value


def checked_start(field: str, value: object) -> str:
    """The name after which a page starts; empty for the first page."""
    return "" if value == "" else checked_text(field, value)


def checked_name(field: str, value: object) -> str:
    """A name: letters, digits and `_ . : / -`, at most 200 of them."""
    # Checked before the cached function: other types may not be hashable.
    if not isinstance(value, str):
        raise _invalid_name(field, value)
    return _valid_name(field, value)


def checked_handler(field: str, value: object) -> str:
    """The name of a handler, given by name or as the handler itself."""
    return checked_name(field, value.name if isinstance(value, HandlerTarget) else value)


def _invalid_name(field: str, value: object) -> InvalidInput:
    return InvalidInput(
        field, f"{quoted(value)} is not a name; take letters, digits and _ . : / -, at most 200"
    )


@lru_cache(4096)
def _valid_name(field: str, value: str) -> str:
    if not NAME.match(value):
        raise _invalid_name(field, value)
    if value.startswith(("http:", "https:")):
        raise InvalidInput(
            field, f"{quoted(value)} is a URL; deliver to duly.webhook({quoted(value)})"
        )
    if value.startswith("endpoint:"):
        name = value.removeprefix("endpoint:")
        raise InvalidInput(field, f"{value!r} is an endpoint; deliver to duly.endpoint({name!r})")
    return value


def unknown_handler(name: str, known: Iterable[str]) -> InvalidInput:
    """The error for a target that no handler and no worker is known to have."""
    names = sorted(known)
    shown = ", ".join(names[:MOST_SHOWN]) or "none"
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return InvalidInput(
        "target",
        f"no handler {name!r} is known; known are: {shown}{more}. "
        f"Register it with @app.handler({name!r}), start the worker that has it, "
        f"or declare it with app.expect({name!r})",
    )


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags without duplicates, in the order given."""
    if isinstance(tags, str):
        raise InvalidInput("tags", f"give a list, as in [{quoted(tags)}]")
    unique: dict[str, None] = {}
    for tag in tags:
        unique[checked_text("tags", tag, 100)] = None
        if len(unique) > TAGS_LIMIT:
            raise InvalidInput("tags", f"there are more than the {TAGS_LIMIT} allowed")
    return tuple(unique)


def checked_priority(value: object) -> int:
    """A priority from 1 to 9; 9 is delivered first."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not LEAST_PRIORITY <= value <= MOST_PRIORITY:  # type: ignore[operator]
        raise InvalidInput(
            "priority",
            f"{quoted(value)} is not a whole number from {LEAST_PRIORITY} to {MOST_PRIORITY}",
        )
    return value  # type: ignore[return-value]


def checked_moment(field: str, value: object) -> datetime:
    """An aware datetime, converted to UTC."""
    if not isinstance(value, datetime):
        raise InvalidInput(field, f"{quoted(value)} is not a datetime")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(
            field, f"{value.isoformat()} has no time zone; give one, as in datetime.now(UTC)"
        )
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        moment = LATEST
    if not EARLIEST <= moment < LATEST:
        raise InvalidInput(field, f"{value.isoformat()} is not between 1970 and 9000")
    return moment


def checked_wait(field: str, value: float | timedelta) -> float:
    """A duration in seconds, from 0 to 100 years."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field, f"{quoted(value)} is not a number of seconds or a timedelta")
    if not 0 <= value <= LONGEST_WAIT.total_seconds():
        raise InvalidInput(field, f"{quoted(value)} is not from 0 seconds to 100 years")
    return float(value)


def checked_limit(value: object) -> int:
    """The maximum number of items in a list."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LONGEST_PAGE:
        raise InvalidInput(
            "limit", f"{quoted(value)} is not a whole number from 1 to {LONGEST_PAGE}"
        )
    return value


def checked_id(value: object) -> str:
    """A delivery id in canonical UUID form."""
    try:
        return str(UUID(value))  # type: ignore[arg-type]
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput("id", f"{quoted(value)} is no delivery id, which is a UUID") from None


def checked_beginning(value: object) -> str:
    """A delivery id or its first digits, as lowercase hexadecimal without hyphens."""
    digits = value.replace("-", "").lower() if isinstance(value, str) else ""
    if not HEXADECIMAL.match(digits):
        raise InvalidInput(
            "id", f"{value!r} is no delivery id, which is a UUID, and not the beginning of one"
        )
    if len(digits) < SHORTEST_BEGINNING:
        raise InvalidInput("id", f"{value!r} is too short; give {SHORTEST_BEGINNING} characters")
    return digits
