"""Results of handlers and their steps, as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from duly.domain.deliveries.payloads import payload_bytes
from duly.errors import InvalidInput

RESULT_LIMIT = 64 * 1024
RESULT = "result"
ROOM = len(f'{{"{RESULT}":}}')


def kept_result(value: Any) -> msgspec.Raw:
    """A result as JSON for the store."""
    try:
        return msgspec.Raw(payload_bytes(value, RESULT_LIMIT))
    except InvalidInput as error:
        raise InvalidInput(RESULT, error.problem) from error


def answer_with(value: Any) -> str:
    """What is stored with the attempt of a handler that returned this value."""
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
