"""`duly top`: rates, lists and what needs attention at a terminal; else one screen of text."""

from __future__ import annotations

import os
import sys

from duly.records.status import Top
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.output import answer, cell, counted, facts, table
from duly.surfaces.cli.terminal.times import spelled

TOP_COLUMNS = ("worker", "busy", "handlers")


async def top(*, common: Common = COMMON) -> None:
    """Watch deliveries, schedules, streams, endpoints and workers; ? shows the keys to act on them.

    Without a terminal: print rates, due deliveries and workers once.
    """
    async with backend(common) as app:
        if common.json or not is_interactive():
            found = await app.stats.top()
            answer(common.json, found, lambda: screen(found))
            return
        from duly.surfaces.cli.top.session import run

        await run(app)


def is_interactive() -> bool:
    """Whether a screen can be drawn and keys can be read."""
    is_dumb = os.environ.get("TERM", "") in ("", "dumb")
    return sys.stdout.isatty() and sys.stdin.isatty() and not is_dumb


def screen(found: Top) -> str:
    """One screen of text."""
    summary = {
        "at": found.at,
        "accepted": f"{found.accepted_per_second:g} a second",
        "completed": f"{found.completed_per_second:g} a second",
        "failed": f"{found.failed_per_second:g} a second",
        "due": _due(found),
        "retries": f"{counted(found.retries, found.counted_up_to)} waiting",
        "workers": f"{len(found.workers)} alive",
    }
    rows = (
        (each.name, f"{each.holding}/{each.concurrency}", each.handlers) for each in found.workers
    )
    return f"{facts(summary)}\n\n{table(TOP_COLUMNS, rows, TOP_COLUMNS[-1:])}"


def _due(found: Top) -> str:
    if found.oldest_due_at is None:
        return "nothing"
    waits = (found.at - found.oldest_due_at).total_seconds()
    since = cell(found.oldest_due_at)
    count = counted(found.due, found.counted_up_to)
    return f"{count}, the oldest since {since} ({spelled(max(0.0, round(waits, 1)))})"
