"""The audit trail: who changed what, and when."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain import checks
from duly.errors import InvalidInput
from duly.ports import Store
from duly.records.audit_entry import AuditEntry

LAST = 2**62


class Audit:
    """The audit trail of one app's namespace."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(self, *, before: int | None = None, limit: int = 50) -> Sequence[AuditEntry]:
        """Entries, latest first; `before` is the last id of the previous page."""
        start = LAST if before is None else before
        if isinstance(start, bool) or not isinstance(start, int) or not 0 <= start <= LAST:
            raise InvalidInput("before", "give the id of an entry")
        return await self._store.audit.page(checks.checked_limit(limit), start)
