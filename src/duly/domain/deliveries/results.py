"""Results of handlers and their steps, as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from duly.domain.deliveries.payloads import from_model, payload_bytes
from duly.domain.documents import DEPTH_LIMIT
from duly.errors import InvalidInput

RESULT_LIMIT = 64 * 1024
RESULT = "result"
ENCODER = msgspec.json.Encoder(enc_hook=from_model)
ROOM = len(f'{{"{RESULT}":}}')


def kept_result(value: Any) -> msgspec.Raw:
    """A result as JSON for the store."""
    try:
        return msgspec.Raw(payload_bytes(value, RESULT_LIMIT))
    except InvalidInput as error:
        raise InvalidInput(RESULT, error.problem) from error


def answer_with(value: Any) -> str:
    """What is stored with the attempt of a handler that returned this value."""
    return _short(value) or _checked(value)


def _short(value: Any) -> str | None:
    """The same for short results, which need no further checks: this is called at every attempt."""
    if isinstance(value, msgspec.Raw):
        return None
    try:
        data = ENCODER.encode({RESULT: value})
    except Exception:
        return None
    # So short that it cannot be nested too deep; a null may have been a number.
    return data.decode() if len(data) <= DEPTH_LIMIT and b"null" not in data else None


def _checked(value: Any) -> str:
    if isinstance(value, msgspec.Raw):
        value = kept_result(value)
    try:
        return payload_bytes({RESULT: value}, RESULT_LIMIT + ROOM).decode()
    except InvalidInput as error:
        raise InvalidInput(RESULT, error.problem) from error


def answer_and_result(stored: str | None) -> tuple[Any, Any]:
    """What a receiver answered, and what a handler returned; an attempt has at most one of them."""
    answer = stored and msgspec.json.decode(stored)
    if isinstance(answer, dict) and answer.keys() == {RESULT}:
        return None, answer[RESULT]
    return answer, None
