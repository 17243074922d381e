"""API keys: what one may do and for whom; of its secret only the hash is kept.

A token reads `duly_ID_SECRET`. The id is public and tells keys apart; the secret is 32 random
bytes, so that a plain hash of the whole is as good as a slow one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import datetime
from enum import StrEnum

import msgspec

from duly.errors import InvalidInput, NotFound, quoted

ID_BYTES, SECRET_BYTES = 10, 32
ID = re.compile(r"[a-z2-7]{16}\Z")
TOKEN = re.compile(r"duly_([a-z2-7]{16})_[a-z2-7]{52}\Z")
LONGEST_NAME = 200
FEWEST_LETTERS = 12
"""Different letters in a secret; 32 random bytes have more in all but one of a billion cases."""


class Scope(StrEnum):
    """What a key may do; each may do what those before it may."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    def allows(self, needed: Scope) -> bool:
        """Whether this is enough where that is needed."""
        order = list(Scope)
        return order.index(self) >= order.index(needed)


class KeyState(StrEnum):
    """Whether a key opens anything."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as everyone may see it."""

    id: str
    namespace: str
    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def actor(self) -> str:
        """Who the audit trail says it was."""
        return f"key:{self.id}"

    def standing(self, now: datetime) -> KeyState:
        """Whether it opens anything now."""
        if self.revoked_at is not None:
            return KeyState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return KeyState.EXPIRED
        return KeyState.ACTIVE


class Made(msgspec.Struct, frozen=True):
    """A new key with its token, which is told once and never again."""

    key: StoredKey
    token: str

    def __repr__(self) -> str:
        # Whoever prints it, as in a log, does not mean to tell the token.
        return f"Made({self.key.id!r})"


def new_token(chance: bytes) -> tuple[str, str]:
    """The id and the token of a new key, from ID_BYTES and SECRET_BYTES of chance."""
    id = _letters(chance[:ID_BYTES])
    return id, f"duly_{id}_{_letters(chance[ID_BYTES:])}"


def _letters(chance: bytes) -> str:
    return base64.b32encode(chance).decode().rstrip("=").lower()


def id_in(token: str) -> str | None:
    """The id in a token; None when it cannot be one of ours."""
    found = TOKEN.match(token)
    return None if found is None else found[1]


def check_random(token: str) -> None:
    """Refuse a token that somebody typed, or copied from an example."""
    if len(set(token.rpartition("_")[2])) < FEWEST_LETTERS:
        raise InvalidInput("key", "it is not random; `duly keys bootstrap` prints one that is")


def digest(token: str) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).digest()


def is_token_of(token: str, kept: bytes) -> bool:
    """Whether the token is the one of which that was kept."""
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
    """An id as it may be; NotFound when there can be no such key."""
    if not isinstance(value, str) or not ID.match(value):
        raise no_key(str(value))
    return value


def no_key(id: str) -> NotFound:
    """There is no such key."""
    return NotFound("key", id, "`duly keys list` shows what there is")
