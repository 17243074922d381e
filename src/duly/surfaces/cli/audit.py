"""`duly audit`: who changed what."""

from __future__ import annotations

import msgspec

from duly.surfaces.cli.deliveries import Limit, checked_limit
from duly.surfaces.cli.options import COMMON, Common, client
from duly.surfaces.cli.render import answer, items, table


async def audit(*, limit: Limit = 50, common: Common = COMMON) -> None:
    """List who changed what, the latest first."""
    async with client(common) as app:
        found = await app.schedules.audit(checked_limit(limit))
    answer(
        common.json,
        items(found),
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
                for each in found
            ),
        ),
    )
