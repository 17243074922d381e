"""Payloads as JSON bytes: encoded and checked once, then stored, signed and sent unchanged."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from duly.domain import documents
from duly.domain.documents import DEPTH_LIMIT
from duly.errors import InvalidInput

BODY_LIMIT = 256 * 1024


class Checked(msgspec.Struct, frozen=True):
    """A payload from a document that was already checked (see documents)."""

    data: bytes


def payload_bytes(value: Any, limit: int = BODY_LIMIT) -> bytes:
    """The payload as JSON bytes; InvalidInput if it is too large or cannot be encoded.

    `bytes` and `Raw` must be JSON already; any other value is encoded.
    """
    if isinstance(value, Checked):
        return _checked_size(value.data, limit)
    if isinstance(value, msgspec.Raw):
        value = bytes(value)
    if isinstance(value, bytes):
        _check_json(_checked_size(value, limit))
        return value
    data = _checked_size(_encode(value), limit)
    _check_depth(data)
    if b"null" in data:
        _check_numbers(value)
    return data


def _checked_size(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise InvalidInput(
            "payload",
            f"{len(data)} bytes are more than the {limit} allowed; "
            "store the large part elsewhere and deliver a reference to it",
        )
    return data


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=from_model)
    except RecursionError:
        raise InvalidInput("payload", f"it is nested deeper than {DEPTH_LIMIT}") from None
    except UnicodeEncodeError:
        raise InvalidInput("payload", "it holds a lone surrogate, which is not text") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput("payload", f"it cannot be written as JSON: {error}") from error


def from_model(value: Any) -> Any:
    """What a pydantic model says of itself; msgspec calls this for each type it does not know."""
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        raise TypeError(f"{type(value).__qualname__} is not a type of JSON")
    return dump(mode="json")


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
    # msgspec encodes NaN and infinity as null, which would change the value silently.
    if _has_non_finite_number(msgspec.to_builtins(value, enc_hook=from_model)):
        raise InvalidInput("payload", "NaN and infinity are not JSON; use null or a string")


def _has_non_finite_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_non_finite_number, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_non_finite_number, value))
