"""`duly alerts`: active alerts, and past ones."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.listing import Columns, answer_list

All = Annotated[bool, Parameter(name="--all", negative="", help="Also cleared ones.")]
COLUMNS = Columns("raised_at cleared_at kind subject detail", folds="detail")

commands = App(name="alerts", help="List alerts.")


@commands.default
@commands.command(name="list")
async def list_(*, every: All = False, limit: Limit = 50, common: Common = COMMON) -> None:
    """List active alerts, oldest first; with --all also cleared ones, newest first."""
    most = checked_limit(limit)
    async with backend(common) as app:
        found = await app.alerts.list(limit=most) if every else await app.alerts.raised()
    answer_list(common, found[:most], COLUMNS)
