"""`/v1/audit`: who changed what."""

from __future__ import annotations

from litestar import get

from duly.domain.access.keys import Scope
from duly.errors import InvalidInput
from duly.ports import AuditEntry
from duly.services.access.audit import LAST
from duly.surfaces.http.protocol.decoding import asked
from duly.surfaces.http.protocol.pages import Page, PageQuery, Wanted
from duly.surfaces.http.protocol.request_context import Served


@get(
    "/audit",
    dependencies={"wanted": asked(PageQuery)},
    opt={"scope": Scope.ADMIN},
    operation_id="list_audit_entries",
)
async def listed(duly_app: Served, wanted: Wanted) -> Page[AuditEntry]:
    """Who changed what in the caller's namespace, the latest first."""
    found = await duly_app.audit.list(before=_before(wanted.cursor), limit=wanted.limit + 1)
    page = list(found[: wanted.limit])
    return Page(page, str(page[-1].id) if len(found) > wanted.limit else None)


def _before(cursor: str | None) -> int:
    if cursor is None:
        return LAST
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InvalidInput("cursor", "it is none of ours; take `next` of the page before")
    return int(cursor)


ROUTES = [listed]
