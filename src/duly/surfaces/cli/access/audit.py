"""`duly audit`: who changed what."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.flags import COMMON, Common, books
from duly.surfaces.cli.terminal.output import answer_page, table

Before = Annotated[int | None, Parameter(help="The last id of the page before.")]


async def audit(*, before: Before = None, limit: Limit = 50, common: Common = COMMON) -> None:
    """List who changed what, the latest first."""
    checked_limit(limit)
    async with books(common) as app:
        start = {} if before is None else {"before": before}
        found = await app.audit.list(limit=limit + 1, **start)
    page = found[:limit]
    answer_page(
        common.json,
        page,
        str(page[-1].id) if len(found) > limit else None,
        lambda: table(
            ("done", "actor", "action", "subject", "detail"),
            (
                (
                    each.done_at,
                    each.actor,
                    each.action,
                    each.subject,
                    None if each.detail is None else msgspec.json.encode(each.detail).decode(),
                )
                for each in page
            ),
            folds=("detail",),
        ),
        "--before",
    )
