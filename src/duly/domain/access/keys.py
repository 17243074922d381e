"""API keys: their scope, namespace and state; only a hash of the token is stored.

A token has the form `duly_ID_SECRET`. The id is public. The secret is 32 random bytes, so a plain
SHA-256 of the token is as safe as a slow password hash.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import datetime

import msgspec

from duly.errors import InvalidInput, NotFound, quoted
from duly.records.key import Key, KeyFacts, KeyState, Scope

ID_BYTES, SECRET_BYTES = 10, 32
ID = re.compile(r"[a-z2-7]{16}\Z")
TOKEN = re.compile(r"duly_([a-z2-7]{16})_[a-z2-7]{52}\Z")
FEWEST_LETTERS = 12
"""Distinct characters in a secret; random secrets have fewer in one of a billion cases."""


class StoredKey(KeyFacts, frozen=True, kw_only=True):
    """A key as it is stored, for authentication."""

    @property
    def actor(self) -> str:
        """The key's name in the audit log."""
        return f"key:{self.id}"

    def state(self, now: datetime) -> KeyState:
        """The state of the key at a moment."""
        if self.revoked_at is not None:
            return KeyState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return KeyState.EXPIRED
        return KeyState.ACTIVE

    def record(self, now: datetime) -> Key:
        """The key as people see it at a moment."""
        return Key(**msgspec.structs.asdict(self), state=self.state(now))


def new_token(chance: bytes) -> tuple[str, str]:
    """The id and the token of a new key, from ID_BYTES + SECRET_BYTES random bytes."""
    id = _letters(chance[:ID_BYTES])
    return id, f"duly_{id}_{_letters(chance[ID_BYTES:])}"


def _letters(chance: bytes) -> str:
    return base64.b32encode(chance).decode().rstrip("=").lower()


def id_in(token: str) -> str | None:
    """The id in a token; None if the text does not have the form of a token."""
    found = TOKEN.match(token)
    return None if found is None else found[1]


def check_random(token: str) -> None:
    """Refuse a token that was typed by hand or copied from an example."""
    if len(set(token.rpartition("_")[2])) < FEWEST_LETTERS:
        raise InvalidInput("key", "it is not random; `duly keys bootstrap` prints one that is")


def digest(token: str) -> bytes:
    """The hash of a token, which is stored in its place."""
    return hashlib.sha256(token.encode()).digest()


def is_token_of(token: str, kept: bytes) -> bool:
    """Whether the stored hash is that of the token; compares in constant time."""
    return hmac.compare_digest(digest(token), kept)


def checked_scope(value: object) -> Scope:
    """A scope by its name."""
    try:
        return Scope(value)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidInput(
            "scope", f"{quoted(value)} is none; give read, operate or admin"
        ) from None


def checked_id(value: str) -> str:
    """A key's id; NotFound if no key can have it."""
    if not isinstance(value, str) or not ID.match(value):
        raise no_key(str(value))
    return value


def no_key(id: str) -> NotFound:
    """The error for a key that does not exist."""
    return NotFound("key", id, "`duly keys list` shows what there is")
