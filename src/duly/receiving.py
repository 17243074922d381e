"""Verifies the signatures of received webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Protocol

from duly.domain.checks import checked_moment, checked_wait
from duly.domain.endpoints.signatures import TOLERANCE, SignatureRefused, check, secret_keys
from duly.errors import InvalidInput
from duly.system import SystemClock

Text = str | bytes


class Headers(Protocol):
    """Headers in the form of any framework: a dict, a multidict, an email.message.Message."""

    def items(self) -> Iterable[tuple[Text, Text]]:
        """Names, in any case, and values."""


def verify(
    body: str | bytes | bytearray | memoryview,
    headers: Headers,
    secret: str | Iterable[str],
    *,
    tolerance: float | timedelta = TOLERANCE,
    now: datetime | None = None,
) -> str:
    """Verify a received webhook and return its id, which is the same on every attempt.

    Raises SignatureRefused if it is not valid, or if its timestamp differs from `now` by more than
    `tolerance`: it may be a replay. Pass `body` as it was received, byte for byte; JSON that was
    parsed and encoded again may differ. While you rotate a secret, pass both as a sequence or
    separated by a space.
    """
    return check(
        secret_keys(secret),
        _headers(headers),
        _body(body),
        SystemClock().now() if now is None else checked_moment("now", now),
        timedelta(seconds=checked_wait("tolerance", tolerance)),
    )


def _headers(headers: Headers) -> dict[str, str]:
    if not hasattr(headers, "items"):
        raise InvalidInput("headers", "give a mapping of names to values")
    return {_text(name): _text(value) for name, value in headers.items()}


def _text(value: Text) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _body(body: str | bytes | bytearray | memoryview) -> bytes:
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    if not isinstance(body, str):
        raise InvalidInput("body", "give the bytes as received, not parsed")
    try:
        return body.encode()
    except UnicodeEncodeError:
        raise SignatureRefused("the body has a lone surrogate; give its bytes") from None
