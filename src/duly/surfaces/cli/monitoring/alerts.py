"""`duly alerts`: active alerts, and past ones."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from duly.errors import InvalidInput
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.listing import Columns, answer_list

All = Annotated[bool, Parameter(name="--all", negative="", help="Also cleared ones.")]
Before = Annotated[int | None, Parameter(help="With --all: the last id of the previous page.")]
COLUMNS = Columns("raised_at cleared_at kind subject detail", folds="detail")

commands = App(name="alerts", help="List alerts.")


@commands.default
@commands.command(name="list")
async def list_(
    *, every: All = False, before: Before = None, limit: Limit = 50, common: Common = COMMON
) -> None:
    """List active alerts, oldest first; with --all also cleared ones, newest first."""
    most = checked_limit(limit)
    if before is not None and not every:
        raise InvalidInput("before", "add --all: the active ones are one page")
    async with backend(common) as app:
        if every:
            found = await app.alerts.list(before=before, limit=most + 1)
            return answer_list(common, found, COLUMNS, most, flag="--before")
        found = await app.alerts.raised()
    return answer_list(common, found[:most], COLUMNS)
