"""Signing webhooks and checking what was signed, by the rules of Standard Webhooks (v1)."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from duly.errors import DulyError, InvalidInput

PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64
TOLERANCE = timedelta(minutes=5)
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


class SignatureRefused(DulyError):
    """The message was not signed with this secret, or not lately; the message says which."""


def secret_keys(secrets: str | Iterable[str]) -> list[bytes]:
    """The keys of one secret or several, as a sequence or with spaces between; at least one."""
    given = secrets.split() if isinstance(secrets, str) else list(secrets or ())
    if not given:
        raise InvalidInput("secret", f"there is none; give what the sender gave you, {PREFIX}...")
    return [secret_key(each) for each in given]


def secret_key(secret: str) -> bytes:
    """The key in a secret as people hand it around: `whsec_` and base64, padded or not."""
    try:
        text = secret.removeprefix(PREFIX)
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError, AttributeError):
        raise InvalidInput("secret", f"it is not {PREFIX} followed by base64") from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise InvalidInput(
            "secret", f"its key has {len(key)} bytes; give {LEAST_BYTES} to {MOST_BYTES}"
        )
    return key


def new_secret(key: bytes) -> str:
    """The secret for a key."""
    return PREFIX + base64.b64encode(key).decode()


def signatures(keys: Sequence[bytes], id: str, timestamp: int, body: bytes) -> str:
    """The header for a message: a signature for each key, so that keys can overlap."""
    return " ".join(f"v1,{_signature(key, id, timestamp, body)}" for key in keys)


def _signature(key: bytes, id: str, timestamp: int, body: bytes) -> str:
    signing = _begun(key).copy()
    signing.update(b"%s.%d.%s" % (id.encode(), timestamp, body))
    return base64.b64encode(signing.digest()).decode()


@lru_cache(1000)
def _begun(key: bytes) -> hmac.HMAC:
    # Beginning with a key costs more than signing a message with it.
    return hmac.new(key, digestmod="sha256")


def check(
    keys: Sequence[bytes],
    headers: Mapping[str, str],
    body: bytes,
    now: datetime,
    tolerance: timedelta = TOLERANCE,
) -> str:
    """Check a received message and return its id, the same on every attempt; or SignatureRefused.

    Compared in constant time. A timestamp too far from now is refused: it may be a replay.
    """
    given = _given(headers)
    timestamp = _timestamp(given[TIMESTAMP])
    if abs(now.timestamp() - timestamp) > tolerance.total_seconds():
        raise SignatureRefused("the timestamp is too old or in the future; check the clocks")
    expected = [f"v1,{_signature(key, given[ID], timestamp, body)}" for key in keys]
    offered = given[SIGNATURE].split(" ")
    matches = [hmac.compare_digest(a.encode(), b.encode()) for a in offered for b in expected]
    if not any(matches):
        raise SignatureRefused("no signature matches; is it the endpoint's present secret?")
    return given[ID]


def _given(headers: Mapping[str, str]) -> dict[str, str]:
    given = {name.lower(): value for name, value in headers.items()}
    for name in (ID, TIMESTAMP, SIGNATURE):
        if not given.get(name):
            raise SignatureRefused(f"the header {name} is missing")
        if not given[name].isprintable():
            # Some servers hand on bytes that are no text as lone surrogates.
            raise SignatureRefused(f"the header {name} is no text that can be printed")
    if "." in given[ID]:
        # What is signed is id.timestamp.body: with a full stop, an id could reach into the body
        # of another message, which the rules therefore forbid.
        raise SignatureRefused(f"the header {ID} holds a full stop, which no id may")
    return given


def _timestamp(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 12:
        raise SignatureRefused("the timestamp is no number of seconds")
    return int(text)
