"""A server's workers, keys, alerts and audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duly.client.requester import Requester, page_of
from duly.domain import checks
from duly.domain.access import keys
from duly.records.alert import Alert, AlertPage
from duly.records.audit_entry import AuditEntry
from duly.records.key import Key, KeyWithToken, Scope
from duly.records.worker import Worker


class _Resource:
    def __init__(self, requester: Requester) -> None:
        self._requester = requester


class Workers(_Resource):
    """The workers of one server's namespace."""

    async def list(self, *, limit: int = 100) -> Sequence[Worker]:
        """Workers, live ones first."""
        return (await self._requester.get(page_of(Worker), "workers", limit=limit)).items

    async def drain(self, worker: int) -> Worker:
        """Stop a worker from starting deliveries; those under way finish."""
        return await self._requester.post(Worker, "workers", str(worker), "drain")

    async def resume(self, worker: int) -> Worker:
        """Let a drained worker start deliveries again."""
        return await self._requester.post(Worker, "workers", str(worker), "resume")


class Alerts(_Resource):
    """The alerts of one server's namespace."""

    async def raised(self) -> Sequence[Alert]:
        """The alerts that are active now, oldest first."""
        return (await self._requester.get(AlertPage, "alerts", raised=True)).items[::-1]

    async def list(self, *, before: int | None = None, limit: int = 50) -> Sequence[Alert]:
        """All alerts, newest first; `before` is the last id of the previous page."""
        return (await self._requester.get(AlertPage, "alerts", before=before, limit=limit)).items


class Keys(_Resource):
    """The keys of one server's namespace."""

    async def create(
        self, name: str, *, scope: Scope | str = Scope.READ, expires_at: datetime | None = None
    ) -> KeyWithToken:
        """Create a key for the caller's namespace. Only this result has its token."""
        body = {"name": name, "scope": keys.checked_scope(scope), "expires_at": expires_at}
        return await self._requester.post(KeyWithToken, "keys", body=body)

    async def get(self, id: str) -> Key:
        """One key, or NotFound."""
        return await self._requester.get(Key, "keys", keys.checked_id(id))

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[Key]:
        """Keys by id, also expired or revoked; `after` is the last id of the previous page."""
        start = checks.checked_start("after", after) or None
        return await self._requester.listed(Key, "keys", limit=limit, cursor=start)

    async def revoke(self, id: str) -> Key:
        """Make a key invalid; safe to repeat."""
        return await self._requester.post(Key, "keys", keys.checked_id(id), "revoke")


class Audit(_Resource):
    """The audit trail of one server's namespace."""

    async def list(self, *, before: int | None = None, limit: int = 50) -> Sequence[AuditEntry]:
        """Entries, latest first; `before` is the last id of the previous page."""
        start = None if before is None else str(before)
        return await self._requester.listed(AuditEntry, "audit", limit=limit, cursor=start)
