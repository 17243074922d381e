"""`duly status`: workers, pending, dead and late deliveries, and what is planned next."""

from __future__ import annotations

from typing import Any

from duly.records.status import BacklogStatus, Status
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.output import answer, cell, counted, facts, fields
from duly.surfaces.cli.terminal.times import spelled


async def status(*, common: Common = COMMON) -> None:
    """Show workers, pending, dead and late deliveries, how fast those drain, and what is next."""
    async with backend(common) as app:
        found = await app.stats.status()
    answer(common.json, found, lambda: facts(_facts(found)))


def _facts(found: Status) -> dict[str, Any]:
    late, most = found.recovering, found.counted_up_to
    return fields(found) | {
        "counted_up_to": None,
        **{name: counted(getattr(found, name), most) for name in ("pending", "processing", "dead")},
        "recovering": "no late work" if late is None else _recovering(late),
        "planner_lag": spelled(found.planner_lag) if found.planner_lag else "none",
        "next_planned_at": found.next_planned_at or "nothing",
    }


def _recovering(late: BacklogStatus) -> str:
    text = f"{late.count} late, the oldest since {cell(late.oldest)}"
    if late.rate is None or late.seconds_left is None:
        return f"{text}; not draining"
    return f"{text}; {late.rate:g} a second, {spelled(late.seconds_left)} left"
