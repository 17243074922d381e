"""What may be taken in: payloads as JSON bytes within limits, keys, tags, names and moments."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec

from duly.domain.delivery import LEAST_PRIORITY, MOST_PRIORITY
from duly.domain.errors import InvalidInput
from duly.domain.states import State

BODY_LIMIT = 256 * 1024
DEPTH_LIMIT = 64
KEY_LIMIT = 255
TAGS_LIMIT = 20
LONGEST_PAGE = 100_000
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}\Z")
HEXADECIMAL = re.compile(r"[0-9a-f]{1,32}\Z")
SHORTEST_BEGINNING = 4
LONGEST_WAIT = timedelta(days=366 * 100)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


def payload_bytes(value: Any, limit: int = BODY_LIMIT) -> bytes:
    """The payload as the JSON bytes that are stored, signed and sent, never made again.

    `bytes` are taken as JSON that was already encoded; anything else is encoded here. A `Raw` is
    a piece of a document whose members were checked with it.
    """
    given = value
    if isinstance(value, msgspec.Raw):
        value = bytes(value)
    data = value if isinstance(value, bytes) else _encode(value)
    if len(data) > limit:
        raise InvalidInput(
            "payload",
            f"{len(data)} bytes are more than the {limit} allowed; "
            "store the large part elsewhere and deliver a reference to it",
        )
    if isinstance(value, bytes):
        _check_json(data)
        if not isinstance(given, msgspec.Raw):
            check_members(data)
    _check_depth(data)
    if value is not data and b"null" in data:
        _check_numbers(value)
    return data


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(_plain(value))
    except RecursionError:
        raise InvalidInput("payload", f"it is nested deeper than {DEPTH_LIMIT}") from None
    except UnicodeEncodeError:
        raise InvalidInput("payload", "it holds a lone surrogate, which is not text") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput("payload", f"it cannot be written as JSON: {error}") from error


def _plain(value: Any) -> Any:
    # Pydantic models know best how they are written.
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value


def _check_json(data: bytes) -> None:
    try:
        msgspec.json.decode(data)
    except RecursionError:
        raise InvalidInput("payload", f"it is nested deeper than {DEPTH_LIMIT}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("payload", f"it is not valid JSON: {error}") from error


def check_members(data: bytes, field: str = "payload") -> None:
    """Refuse JSON in which an object has a member twice.

    Readers differ in which of them counts, so whoever checks it may not see what another obeys.
    """
    try:
        _members.decode(data.decode())
    except RecursionError:
        raise InvalidInput(field, f"it is nested deeper than {DEPTH_LIMIT}") from None
    except _Twice as error:
        name = str(error)[:KEY_LIMIT]
        raise InvalidInput(field, f"it has {name!r} twice in one object; give it once") from None


class _Twice(Exception):
    """The name of a member that an object has twice."""


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        # Not by looking for each among all: of a hundred thousand that takes minutes.
        raise _Twice(Counter(names).most_common(1)[0][0])


# What the numbers are is no matter here, and a long one would take long to read.
_members = json.JSONDecoder(object_pairs_hook=_each_once, parse_int=len, parse_float=len)


def _check_depth(data: bytes) -> None:
    # Counting brackets is cheap and nearly always enough; only a suspicious body is walked.
    if data.count(b"[") + data.count(b"{") <= DEPTH_LIMIT:
        return
    try:
        depth = _depth(msgspec.json.decode(data))
    except RecursionError:
        depth = DEPTH_LIMIT + 1
    if depth > DEPTH_LIMIT:
        raise InvalidInput("payload", f"it is nested deeper than {DEPTH_LIMIT}")


def _depth(value: Any) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        each, depth = waiting.pop()
        if isinstance(each, dict | list):
            deepest = max(deepest, depth)
            inner: Iterable[Any] = each.values() if isinstance(each, dict) else each
            waiting.extend((part, depth + 1) for part in inner)
    return deepest


def _check_numbers(value: Any) -> None:
    # They are written as null, which is somebody else's value.
    if _has_unreal_number(msgspec.to_builtins(_plain(value))):
        raise InvalidInput("payload", "NaN and infinity are not JSON; use null or a string")


def _has_unreal_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_unreal_number, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_unreal_number, value))


def checked_text(field: str, value: object, limit: int = KEY_LIMIT) -> str:
    """A short text that both stores keep as it is."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"{value!r} is not text")
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
    """Where a page begins: after that name, or with the first."""
    return "" if value == "" else checked_text(field, value)


def checked_name(field: str, value: object) -> str:
    """A name: letters, digits and `_ . : / -`, at most 200 of them."""
    # Asked apart: what is no text cannot always be remembered.
    if not isinstance(value, str):
        raise _no_name(field, value)
    return _named(field, value)


def _no_name(field: str, value: object) -> InvalidInput:
    return InvalidInput(
        field, f"{value!r} is not a name; take letters, digits and _ . : / -, at most 200"
    )


@lru_cache(4096)
def _named(field: str, value: str) -> str:
    if not NAME.match(value):
        raise _no_name(field, value)
    if value.startswith(("http:", "https:")):
        raise InvalidInput(field, f"{value!r} is a URL; deliver to duly.webhook({value!r})")
    if value.startswith("endpoint:"):
        name = value.removeprefix("endpoint:")
        raise InvalidInput(field, f"{value!r} is an endpoint; deliver to duly.endpoint({name!r})")
    return value


def unknown_handler(name: str, known: Iterable[str]) -> InvalidInput:
    """Nobody has a handler of that name."""
    return InvalidInput(
        "target",
        f"no handler {name!r} is known; known are: {', '.join(sorted(known)) or 'none'}. "
        f"Register it with @app.handler({name!r}), start the worker that has it, "
        f"or declare it with app.expect({name!r})",
    )


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags, each once, in the order given."""
    if isinstance(tags, str):
        raise InvalidInput("tags", f"give a list, as in [{tags!r}]")
    unique = tuple(dict.fromkeys(checked_text("tags", tag, 100) for tag in tags))
    if len(unique) > TAGS_LIMIT:
        raise InvalidInput("tags", f"{len(unique)} are more than the {TAGS_LIMIT} allowed")
    return unique


def checked_priority(value: object) -> int:
    """A priority: 9 goes first, 1 last."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not LEAST_PRIORITY <= value <= MOST_PRIORITY:  # type: ignore[operator]
        raise InvalidInput(
            "priority", f"{value!r} is not a whole number from {LEAST_PRIORITY} to {MOST_PRIORITY}"
        )
    return value  # type: ignore[return-value]


def checked_moment(field: str, value: object) -> datetime:
    """A moment with its zone, in UTC."""
    if not isinstance(value, datetime):
        raise InvalidInput(field, f"{value!r} is not a datetime")
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
    """A wait in seconds."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field, f"{value!r} is not a number of seconds or a timedelta")
    if not 0 <= value <= LONGEST_WAIT.total_seconds():
        raise InvalidInput(field, f"{value!r} is not from 0 seconds to 100 years")
    return float(value)


def checked_limit(value: object) -> int:
    """How many to list."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LONGEST_PAGE:
        raise InvalidInput("limit", f"{value!r} is not a whole number from 1 to {LONGEST_PAGE}")
    return value


def checked_id(value: object) -> str:
    """A delivery id in its usual spelling."""
    try:
        return str(UUID(value))  # type: ignore[arg-type]
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput("id", f"{value!r} is no delivery id, which is a UUID") from None


def checked_beginning(value: object) -> str:
    """A delivery id, or how one begins, in its usual spelling."""
    digits = value.replace("-", "").lower() if isinstance(value, str) else ""
    if not HEXADECIMAL.match(digits):
        raise InvalidInput(
            "id", f"{value!r} is no delivery id, which is a UUID, and not the beginning of one"
        )
    if len(digits) < SHORTEST_BEGINNING:
        raise InvalidInput("id", f"{value!r} is too short; give {SHORTEST_BEGINNING} characters")
    return digits


def checked_state(value: State | str) -> State:
    """A state by its name."""
    try:
        return State(value)
    except ValueError:
        raise InvalidInput("state", f"{value!r} is none of {', '.join(State)}") from None
