"""The store's interface to unique keys, of which one delivery waits at a time."""

from __future__ import annotations

from typing import Protocol


class UniqueKeys(Protocol):
    """The unique keys of all namespaces."""

    async def before(self, id: str) -> str | None:
        """The delivery that one waits for because it runs and has the same key."""

    async def tidy_unsettled(self, limit: int) -> int:
        """Look again at keys that were locked when a delivery was settled; returns how many.

        Those that are still locked are left out.
        """
