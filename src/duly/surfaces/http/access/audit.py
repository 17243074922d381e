"""`/v1/audit`: who changed what."""

from __future__ import annotations

from duly.errors import InvalidInput
from duly.records.audit_entry import AuditEntry
from duly.records.key import Scope
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.pages import Page, PageQuery, page_of
from duly.surfaces.http.protocol.routing import get


@get("/audit", scope=Scope.ADMIN, operation_id="list_audit_entries")
async def listed(app: Namespace, query: PageQuery) -> Page[AuditEntry]:
    """Who changed what in the caller's namespace, latest first."""
    found = await app.audit.list(before=_before(query.cursor), limit=query.limit + 1)
    return page_of(found, query.limit, "id")


def _before(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InvalidInput("cursor", "give `next` of the previous page")
    return int(cursor)


ROUTES = [listed]
