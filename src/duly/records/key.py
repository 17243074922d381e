"""API keys: their scopes and states; the token is shown once."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class Scope(StrEnum):
    """What a key may do; each scope includes those before it."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    def allows(self, needed: Scope) -> bool:
        """Whether this scope includes the needed one."""
        order = list(Scope)
        return order.index(self) >= order.index(needed)


class KeyState(StrEnum):
    """Whether a key is valid."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


class KeyFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a key besides the hash of its token."""

    id: str
    namespace: str
    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None


class Key(KeyFacts, frozen=True, kw_only=True):
    """A key, without its token."""

    state: KeyState


class KeyWithToken(Key, frozen=True, kw_only=True):
    """A new key with its token, which is shown only once."""

    token: str

    def __repr__(self) -> str:
        # A repr may appear in a log.
        return f"KeyWithToken({self.id!r})"
