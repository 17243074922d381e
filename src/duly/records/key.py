"""API keys: their scopes and states; the token is shown once."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

LONGEST_NAME = 200


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


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A key to be made."""

    EXAMPLE: ClassVar = {"name": "ops", "scope": "operate", "expires_at": "2027-11-15T09:00:00Z"}
    name: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="whose it is")]
    scope: Scope = Scope.READ
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None


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
