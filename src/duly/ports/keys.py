"""The store's interface for API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from duly.domain.access.keys import StoredKey


class Keys(Protocol):
    """API keys of one namespace; the methods for authentication, from `find` on, cover all."""

    async def create(self, key: StoredKey, hash: bytes, actor: str) -> StoredKey:
        """Store a new key of this namespace, with its audit entry."""

    async def create_first(self, key: StoredKey, hash: bytes, actor: str) -> bool:
        """Store a key like `create`, only if no namespace has a key; returns whether it did.

        Revoked and expired keys count. Of several concurrent calls, one succeeds.
        """

    async def get(self, id: str) -> StoredKey:
        """One key, or NotFound."""

    async def page(self, after: str, limit: int) -> list[StoredKey]:
        """A page of keys by id, including revoked and expired ones."""

    async def revoke(self, id: str, actor: str) -> StoredKey:
        """Revoke a key, with an audit entry; safe to repeat."""

    async def find(self, id: str) -> tuple[StoredKey, bytes] | None:
        """A key of any namespace with the hash of its token."""

    async def start_session(self, key: StoredKey, id: str, hash: bytes, until: datetime) -> None:
        """Store a session with the rights of a key; expired sessions are deleted."""

    async def find_session(self, id: str) -> tuple[StoredKey, bytes] | None:
        """The key of a session, which expires when one of both does, and the token's hash."""

    async def end_session(self, id: str) -> None:
        """Delete a session; safe to repeat."""

    async def touch(self, id: str, before: datetime) -> None:
        """Set `last_used_at` to now, unless it is later than `before`."""

    async def spend(self, id: str, uses: int, rate: float, most: float) -> float:
        """Take uses out of a key's bucket, which refills at `rate` up to `most`.

        Returns the new level, which may be negative.
        """

    async def any_active(self) -> bool:
        """Whether any namespace has an active key."""
