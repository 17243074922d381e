"""A server's workers, alerts, keys and audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duly.client.connection import Wire, page_of
from duly.domain import checks
from duly.domain.access import keys
from duly.domain.access.keys import Made, StoredKey
from duly.records.alert import Alert
from duly.records.audit_entry import AuditEntry
from duly.records.key import Scope
from duly.records.worker import Worker
from duly.services.access.audit import LAST


class Workers:
    """The workers of one server's namespace."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def list(self, *, limit: int = 100) -> Sequence[Worker]:
        """Workers, those alive first."""
        return (await self._wire.get(page_of(Worker), "workers", limit=limit)).items

    async def drain(self, worker: int) -> None:
        """Let it start nothing more, within a heartbeat; what runs there ends, and it stays."""
        await self._wire.post(type(None), "workers", str(worker), "drain")

    async def resume(self, worker: int) -> None:
        """Let it start work again."""
        await self._wire.post(type(None), "workers", str(worker), "resume")


class Alerts:
    """A server's alerts."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def raised(self) -> Sequence[Alert]:
        """Those that are the matter now, oldest first."""
        page = await self._wire.get(page_of(Alert), "alerts", raised=True)
        return [*reversed(page.items)]

    async def list(self, *, limit: int = 50) -> Sequence[Alert]:
        """Also those that are over, newest first."""
        return (await self._wire.get(page_of(Alert), "alerts", limit=limit)).items


class MadeKey(StoredKey, frozen=True, kw_only=True):
    """A new key with its token, which is told this once."""

    token: str


class Keys:
    """The keys of one server's namespace."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def create(
        self, name: str, *, scope: Scope | str = Scope.READ, expires_at: datetime | None = None
    ) -> Made:
        """Make a key for the caller's namespace. Its token is told here and never again."""
        body = {"name": name, "scope": keys.checked_scope(scope), "expires_at": expires_at}
        made = await self._wire.post(MadeKey, "keys", body=body)
        facts = {each: getattr(made, each) for each in StoredKey.__struct_fields__}
        return Made(StoredKey(**facts), made.token)

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[StoredKey]:
        """Keys by id, spent ones too; `after` is the last id of the page before."""
        start = checks.checked_start("after", after) or None
        return await self._wire.listed(StoredKey, "keys", limit=limit, cursor=start)

    async def revoke(self, id: str) -> StoredKey:
        """Let a key open nothing any more; again it changes nothing."""
        return await self._wire.post(StoredKey, "keys", keys.checked_id(id), "revoke")


class Audit:
    """The audit trail of one server's namespace."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def list(self, *, before: int = LAST, limit: int = 50) -> Sequence[AuditEntry]:
        """Entries, the latest first; `before` is the id of the last of the page before."""
        start = None if before == LAST else str(before)
        return await self._wire.listed(AuditEntry, "audit", limit=limit, cursor=start)
