"""Payloads: the JSON bytes that are stored, signed and sent, within limits."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from duly.domain import documents
from duly.domain.documents import DEPTH_LIMIT
from duly.errors import InvalidInput

BODY_LIMIT = 256 * 1024


class Checked(msgspec.Struct, frozen=True):
    """A payload in a document that was checked as a whole (see documents)."""

    data: bytes


def payload_bytes(value: Any, limit: int = BODY_LIMIT) -> bytes:
    """The payload as the JSON bytes that are stored, signed and sent, never made again.

    `bytes` and a `Raw` are taken as JSON that was already encoded; anything else is encoded here.
    """
    if isinstance(value, Checked):
        return _within(value.data, limit)
    if isinstance(value, msgspec.Raw):
        value = bytes(value)
    if isinstance(value, bytes):
        _check_json(_within(value, limit))
        return value
    data = _within(_encode(value), limit)
    _check_depth(data)
    if b"null" in data:
        _check_numbers(value)
    return data


def _within(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise InvalidInput(
            "payload",
            f"{len(data)} bytes are more than the {limit} allowed; "
            "store the large part elsewhere and deliver a reference to it",
        )
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
        documents.check(data)
    except documents.Unfit as error:
        raise InvalidInput("payload", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("payload", f"it is not valid JSON: {error}") from error
    except RecursionError:
        raise InvalidInput("payload", f"it is nested deeper than {DEPTH_LIMIT}") from None


def _check_depth(data: bytes) -> None:
    try:
        documents.check_depth(data)
    except documents.TooDeep as error:
        raise InvalidInput("payload", str(error)) from None


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
