"""Signs webhooks and verifies signatures as defined by Standard Webhooks (v1)."""

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
    """The signature is not valid for the secret, or is too old; the message says which."""


def secret_keys(secrets: str | Iterable[str]) -> list[bytes]:
    """The keys of one or more secrets, given as a sequence or separated by spaces."""
    given = secrets.split() if isinstance(secrets, str) else list(secrets or ())
    if not given:
        raise InvalidInput("secret", f"there is none; give what the sender gave you, {PREFIX}...")
    return [secret_key(each) for each in given]


def secret_key(secret: str) -> bytes:
    """The key of a secret: `whsec_` and base64, with or without padding."""
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
    """The signature header of a message: one signature per key, so that keys can be rotated."""
    return " ".join(f"v1,{_signature(key, id, timestamp, body)}" for key in keys)


def _signature(key: bytes, id: str, timestamp: int, body: bytes) -> str:
    signing = _keyed_hmac(key).copy()
    signing.update(b"%s.%d.%s" % (id.encode(), timestamp, body))
    return base64.b64encode(signing.digest()).decode()


@lru_cache(1000)
def _keyed_hmac(key: bytes) -> hmac.HMAC:
    # Cached: the setup of a key costs more than signing a message with it.
    return hmac.new(key, digestmod="sha256")


def check(
    keys: Sequence[bytes],
    headers: Mapping[str, str],
    body: bytes,
    now: datetime,
    tolerance: timedelta = TOLERANCE,
) -> str:
    """Verify a received message and return its id, which is the same on every attempt.

    Raises SignatureRefused, also for a timestamp too far from now, which may be a replay.
    Signatures are compared in constant time.
    """
    given = _signature_headers(headers)
    timestamp = _timestamp(given[TIMESTAMP])
    if abs(now.timestamp() - timestamp) > tolerance.total_seconds():
        raise SignatureRefused("the timestamp is too old or in the future; check the clocks")
    expected = [f"v1,{_signature(key, given[ID], timestamp, body)}" for key in keys]
    offered = given[SIGNATURE].split(" ")
    matches = [hmac.compare_digest(a.encode(), b.encode()) for a in offered for b in expected]
    if not any(matches):
        raise SignatureRefused("no signature matches; is it the endpoint's present secret?")
    return given[ID]


def _signature_headers(headers: Mapping[str, str]) -> dict[str, str]:
    given = {name.lower(): value for name, value in headers.items()}
    for name in (ID, TIMESTAMP, SIGNATURE):
        if not given.get(name):
            raise SignatureRefused(f"the header {name} is missing")
        if not given[name].isprintable():
            # Some servers pass undecodable bytes on as lone surrogates.
            raise SignatureRefused(f"the header {name} is no text that can be printed")
    if "." in given[ID]:
        # The signed text is id.timestamp.body. With a full stop in the id, parts of the body of
        # another message could be passed off as the id, so the standard forbids it.
        raise SignatureRefused(f"the header {ID} holds a full stop, which no id may")
    return given


def _timestamp(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 12:
        raise SignatureRefused("the timestamp is no number of seconds")
    return int(text)
