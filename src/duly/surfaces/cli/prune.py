"""`duly prune`: remove what is long finished, after a look at how much that is."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.domain.errors import InvalidInput
from duly.stores.upkeep import BEGINNING
from duly.surfaces.cli.options import Common, Database, Json, client
from duly.surfaces.cli.render import answer, progress
from duly.surfaces.cli.times import duration, spelled

Slice = Callable[[timedelta, timedelta, str, int], Awaitable[tuple[int, str | None]]]
Flag = Annotated[bool, Parameter(negative=())]


async def prune(
    *,
    completed_for: str | None = None,
    dead_for: str | None = None,
    dry_run: Flag = False,
    yes: Flag = False,
    database: Database = None,
    json: Json = False,
) -> None:
    """Remove deliveries that are long finished, in every namespace; unfinished work stays.

    Parameters
    ----------
    completed_for
        How long completed and cancelled ones are kept, as in 7d; else the setting keep_completed.
    dead_for
        How long dead letters are kept, as in 90d; else the setting keep_dead.
    dry_run
        Count, and remove nothing.
    yes
        Do not ask.
    """
    async with client(Common(database=database)) as app:
        keep = (
            _kept("completed_for", completed_for, app.settings.keep_completed),
            _kept("dead_for", dead_for, app.settings.keep_dead),
        )
        prunable = await _in_slices(app, app.store.upkeep.count_prunable, keep, None)
        removed = 0
        if prunable and not dry_run and (yes or _agreed(prunable, keep)):
            removed = await _in_slices(app, app.store.upkeep.prune, keep, prunable)
    document = {"prunable": prunable, "removed": removed, "dry_run": dry_run}
    told = f"{prunable} would be removed" if dry_run else f"{removed} removed"
    answer(json, document, lambda: told)


def _kept(field: str, text: str | None, default: float) -> timedelta:
    return timedelta(seconds=default) if text is None else duration(field, text)


def _agreed(count: int, keep: tuple[timedelta, timedelta]) -> bool:
    completed, dead = (spelled(each.total_seconds()) for each in keep)
    print(
        f"{count} deliveries are older than {completed} (completed, cancelled) or {dead} (dead).\n"
        "Remove them for good? [y/N] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    reply = sys.stdin.readline()
    if not reply:
        raise InvalidInput("yes", "nobody is there to ask; give --yes, or --dry-run to only count")
    return reply.strip().lower() in ("y", "yes")


async def _in_slices(
    app: App, each: Slice, keep: tuple[timedelta, timedelta], total: int | None
) -> int:
    done, after = 0, BEGINNING
    with progress("looking" if total is None else "removing", total) as advance:
        while True:
            count, next_after = await each(*keep, after, app.settings.prune_batch)
            done += count
            advance(count)
            if next_after is None:
                return done
            after = next_after
