"""API keys: scopes and states."""

from __future__ import annotations

from enum import StrEnum


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
