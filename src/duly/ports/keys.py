"""What is asked of the store about API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from duly.domain.access.keys import StoredKey


class Keys(Protocol):
    """Keys to the HTTP port; those of one namespace, but at the door those of all."""

    async def create(self, key: StoredKey, hash: bytes, actor: str) -> StoredKey:
        """Keep a new key of this namespace, with its audit entry."""

    async def create_first(self, key: StoredKey, hash: bytes, actor: str) -> bool:
        """Keep a key like `create`, if no namespace has any; of several at once one does.

        Keys that are revoked or expired count. Returns whether it was kept.
        """

    async def get(self, id: str) -> StoredKey:
        """One key, or NotFound."""

    async def page(self, after: str, limit: int) -> list[StoredKey]:
        """Keys by id, those that are revoked or expired too."""

    async def revoke(self, id: str, actor: str) -> StoredKey:
        """Let one open nothing any more, with an audit entry; again it changes nothing."""

    async def find(self, id: str) -> tuple[StoredKey, bytes] | None:
        """A key of any namespace with what was kept of its token."""

    async def touch(self, id: str, before: datetime) -> None:
        """Note that it is in use, unless that was noted after `before`."""

    async def spend(self, id: str, uses: int, rate: float, most: float) -> float:
        """Take uses out of a key's bucket, which fills at a rate and holds so many; what is left.

        It may be less than nothing.
        """

    async def any_active(self) -> bool:
        """Whether any key of any namespace opens anything now."""
