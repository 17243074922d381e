"""`duly audit`: who changed what."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from duly.records.audit_entry import AuditEntry
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.listing import Columns, answer_list

Before = Annotated[int | None, Parameter(help="The last id of the previous page.")]


async def audit(*, before: Before = None, limit: Limit = 50, common: Common = COMMON) -> None:
    """List who changed what, latest first."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.audit.list(before=before, limit=limit + 1)
    answer_list(common, found, COLUMNS, limit, flag="--before")


def _detail(entry: AuditEntry) -> str | None:
    return None if entry.detail is None else msgspec.json.encode(entry.detail).decode()


COLUMNS = Columns("done_at actor action subject detail", folds="detail", detail=_detail)
