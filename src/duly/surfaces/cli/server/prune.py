"""`duly prune`: remove old finished deliveries, after showing their number."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from duly.app import App
from duly.domain.time.durations import duration
from duly.services.interruption import ended
from duly.settings import Settings
from duly.stores.deliveries.maintenance import BEGINNING
from duly.surfaces.cli.terminal.confirmation import Yes, confirmed
from duly.surfaces.cli.terminal.flags import COMMON, Common, client
from duly.surfaces.cli.terminal.output import answer, print_message, progress
from duly.surfaces.cli.terminal.times import spelled

Slice = Callable[[timedelta, timedelta, str, int], Coroutine[Any, Any, tuple[int, str | None]]]
Keep = tuple[timedelta, timedelta]
CompletedFor = Annotated[
    str | None,
    Parameter(help="How long to keep completed and cancelled ones, as in 7d; else a setting."),
]
DeadFor = Annotated[
    str | None, Parameter(help="How long to keep dead letters, as in 90d; else a setting.")
]


@Parameter(name="*")
@dataclass(frozen=True)
class Age:
    """How long deliveries are kept."""

    completed_for: CompletedFor = None
    dead_for: DeadFor = None

    def limits(self, settings: Settings) -> Keep:
        """How long completed and dead deliveries are kept."""
        return (
            _kept("completed_for", self.completed_for, settings.keep_completed),
            _kept("dead_for", self.dead_for, settings.keep_dead),
        )


AGE = Age()


async def prune(
    *,
    age: Age = AGE,
    dry_run: Annotated[bool, Parameter(negative=(), help="Only count; remove nothing.")] = False,
    yes: Yes = False,
    common: Common = COMMON,
) -> None:
    """Remove old finished deliveries; unfinished ones are never removed."""
    async with client(common) as app:
        keep = age.limits(app.settings)
        prunable = await _in_slices(app, app.store.maintenance.count_prunable, keep, None)
        removed = 0
        if prunable and not dry_run and (yes or _confirmed(prunable, keep)):
            removed = await _in_slices(app, app.store.maintenance.prune, keep, prunable)
    document = {"prunable": prunable, "removed": removed, "dry_run": dry_run}
    text = f"{prunable} would be removed" if dry_run else f"{removed} removed"
    answer(common.json, document, lambda: text)


def _kept(field: str, text: str | None, default: float) -> timedelta:
    return timedelta(seconds=default) if text is None else duration(field, text)


def _confirmed(count: int, keep: Keep) -> bool:
    completed, dead = (spelled(each.total_seconds()) for each in keep)
    return confirmed(
        f"{count} deliveries are older than {completed} (completed, cancelled) or {dead} (dead).\n"
        "Remove them for good?",
        "--yes, or --dry-run to only count",
    )


async def _in_slices(app: App, each: Slice, keep: Keep, total: int | None) -> int:
    done, after = 0, BEGINNING
    with progress("looking" if total is None else "removing", total) as advance:
        while True:
            slice_ = each(*keep, after, app.settings.prune_batch)
            (count, next_after), cancelled = await ended(slice_)
            done += count
            advance(count)
            if cancelled is not None:
                if total is not None:
                    print_message(
                        f"stopped after {done} of {total}; the same command removes the rest"
                    )
                raise cancelled
            if next_after is None:
                return done
            after = next_after
