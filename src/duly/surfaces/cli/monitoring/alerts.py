"""`duly alerts`: what is the matter, and what was."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.flags import COMMON, Common, books
from duly.surfaces.cli.terminal.output import answer, items, table

All = Annotated[bool, Parameter(name="--all", negative="", help="Also those that are over.")]


commands = App(name="alerts", help="List alerts.")


@commands.default
@commands.command(name="list")
async def list_(*, every: All = False, limit: Limit = 50, common: Common = COMMON) -> None:
    """List alerts that are raised, oldest first; with --all also those that are over."""
    async with books(common) as app:
        most = checked_limit(limit)
        found = await app.alerts.list(limit=most) if every else await app.alerts.raised()
    answer(
        common.json,
        items(found[:most]),
        lambda: table(
            ("raised", "cleared", "kind", "subject", "detail"),
            (
                (each.raised_at, each.cleared_at, each.kind, each.subject, each.detail)
                for each in found[:most]
            ),
            folds=("detail",),
        ),
    )
