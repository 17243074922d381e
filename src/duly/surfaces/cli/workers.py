"""`duly workers`, `duly late` and `duly stuck`."""

from __future__ import annotations

from cyclopts import App

from duly.domain.time.durations import duration
from duly.surfaces.cli.deliveries.commands import Limit, Payloads, checked_limit, listed
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.listing import Columns, answer_list
from duly.surfaces.cli.terminal.output import answer, items, table

COLUMNS = Columns(
    "id name alive ended=ended_how holding slots=concurrency version generation beat_at "
    "namespaces handlers",
    folds="namespaces handlers",
)

commands = App(name="workers", help="List workers; drain or resume one.")


@commands.default
@commands.command(name="list")
async def list_(*, limit: Limit = 100, common: Common = COMMON) -> None:
    """List workers, live ones first."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.workers.list(limit=limit)
    answer_list(common, found, COLUMNS)


@commands.command
async def drain(worker: int, /, *, common: Common = COMMON) -> None:
    """Stop a worker from starting deliveries, within a heartbeat; those under way finish.

    Parameters
    ----------
    worker
        Its number, as `duly workers` shows it.
    """
    async with backend(common) as app:
        drained = await app.workers.drain(worker)
    answer(common.json, drained, lambda: f"worker {worker} is draining")


@commands.command
async def resume(worker: int, /, *, common: Common = COMMON) -> None:
    """Let a drained worker start deliveries again.

    Parameters
    ----------
    worker
        Its number, as `duly workers` shows it.
    """
    async with backend(common) as app:
        resumed = await app.workers.resume(worker)
    answer(common.json, resumed, lambda: f"worker {worker} resumes")


async def late(
    *,
    grace: str | None = None,
    limit: Limit = 50,
    payloads: Payloads = False,
    common: Common = COMMON,
) -> None:
    """List deliveries that are due and not claimed, longest waiting first.

    Parameters
    ----------
    grace
        List only those that are later than this, as in 60s; default: the setting `grace`.
    """
    checked_limit(limit)
    async with backend(common) as app:
        allowed = None if grace is None else duration("grace", grace)
        found = await app.stats.late(allowed, limit=limit, payloads=payloads)
    answer(common.json, items(found), lambda: listed(found))


async def stuck(
    *,
    held_for: str = "5m",
    limit: Limit = 50,
    payloads: Payloads = False,
    common: Common = COMMON,
) -> None:
    """List deliveries that need an intervention, and why.

    Parameters
    ----------
    held_for
        List also those that have run for longer than this.
    """
    checked_limit(limit)
    async with backend(common) as app:
        allowed = duration("held_for", held_for)
        found = await app.stats.stuck(allowed, limit=limit, payloads=payloads)
    answer(
        common.json,
        items(found),
        lambda: table(
            ("id", "target", "state", "due", "why"),
            ((each.id, each.target, each.state, each.due_at, each.why) for each in found),
            folds=("why",),
        ),
    )
