"""The audit trail: who changed what, written in the transaction of the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from duly.records.audit_entry import AuditEntry
from duly.stores.database import Database, NamedRow, Session


class Audit:
    """The audit trail of one namespace."""

    def __init__(self, database: Database, namespace: str) -> None:
        self._database = database
        self._namespace = namespace

    async def page(self, limit: int, before: int) -> list[AuditEntry]:
        """Entries, newest first; `before` is the number to continue from."""
        rows = await self._database.fetch_named(
            "audit.page", "any", namespace=self._namespace, before=before, limit=limit
        )
        return [_entry(row) for row in rows]


def _entry(row: NamedRow) -> AuditEntry:
    detail = row["detail"]
    return AuditEntry(**dict(row) | {"detail": detail and msgspec.json.decode(detail)})


async def note(
    session: Session,
    namespace: str,
    actor: str,
    action: str,
    subject: str,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Write an entry in the transaction of the change."""
    await session.fetch(
        "audit.note",
        "any",
        namespace=namespace,
        actor=actor,
        action=action,
        subject=subject,
        detail=None if detail is None else msgspec.json.encode(detail).decode(),
    )


async def note_each(
    session: Session, namespace: str, actor: str, action: str, subjects: Sequence[str]
) -> None:
    """Write an entry for each subject of the same action."""
    await session.fetch_batch(
        "audit.note_each",
        columns={"subject": subjects},
        namespace=namespace,
        actor=actor,
        action=action,
    )
