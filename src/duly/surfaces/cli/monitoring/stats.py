"""`duly stats`: failures, or counts over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from duly.domain.time.durations import duration
from duly.errors import InvalidInput
from duly.records.stats import FailureStats, OldestWaiting, Poison, Retries, Series
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.output import answer, cell, facts, fields, table
from duly.surfaces.cli.terminal.times import moment, moment_or_ago

LINES = 48

Since = Annotated[
    str, Parameter(help="How far back to count, as in 24h, or from when, as in 2026-11-16T09:00Z.")
]


Over = Annotated[
    bool, Parameter(name="--series", negative="", help="Show counts over time instead.")
]


@Parameter(name="*")
@dataclass(frozen=True)
class SeriesFlags:
    """The flags of a series: its end, its steps, and whose outcomes are counted."""

    until: Annotated[
        str | None,
        Parameter(help="With --series: until then, 2026-11-16T09:00Z, or 2h for two hours ago."),
    ] = None
    step: Annotated[
        str | None,
        Parameter(help=f"With --series: whole minutes, as in 15m; otherwise {LINES} lines."),
    ] = None

    target: Annotated[
        str | None, Parameter(help="With --series: only the outcomes of this target.")
    ] = None
    schedule: Annotated[
        str | None, Parameter(help="With --series: only the outcomes of this schedule.")
    ] = None


WHOLE = SeriesFlags()


async def stats(
    *,
    since: Since = "24h",
    series: Over = False,
    flags: SeriesFlags = WHOLE,
    common: Common = COMMON,
) -> None:
    """Show failures: attempts, reasons, retries, poison, blocked and paused streams."""
    wanted = since_of(since)
    if flags != WHOLE and not series:
        raise InvalidInput(
            "series", "add --series: only counts over time have an end, steps, target or schedule"
        )
    async with backend(common) as app:
        if series:
            steps = await _series(app, wanted, flags)
            answer(common.json, steps, lambda: _steps(steps))
        else:
            found = await app.stats(wanted)
            answer(common.json, found, lambda: facts(_facts(found)))


async def _series(app: Backend, since: datetime | timedelta, flags: SeriesFlags) -> Series:
    now = app.clock.now()
    until = None if flags.until is None else moment_or_ago("until", flags.until, now)
    step = _step(since, until or now) if flags.step is None else duration("step", flags.step)
    part = {"target": flags.target, "schedule": flags.schedule}
    return await app.stats.series(since, until, step, **part)


def _step(since: datetime | timedelta, until: datetime) -> timedelta:
    """Whole minutes, so that there are at most 48 lines."""
    span = until - since if isinstance(since, datetime) else since
    return timedelta(minutes=max(1, -(-span // timedelta(minutes=LINES))))


def _steps(series: Series) -> str:
    names = ("accepted", "completed", "failed", "dead", "on_time", "late")
    return table(
        ("from", *(name.replace("_", " ") for name in names)),
        ((each.at, *(getattr(each, name) for name in names)) for each in series.points),
    )


def since_of(text: str) -> datetime | timedelta:
    return moment("since", text) if "T" in text or ":" in text else duration("since", text)


def _facts(found: FailureStats) -> dict[str, Any]:
    capped = [f"{each} (the newest {found.counted_up_to} only)" for each in found.capped]
    return fields(found) | {
        "counted_up_to": None,
        "capped": capped,
        "states": _listed(found.states),
        "attempts": _listed(found.attempts),
        "reasons": _listed(found.reasons),
        "retries": _retries(found.retries),
        "poison": _poison(found.poison),
        "oldest_waiting": _waiting(found.oldest_waiting),
    }


def _listed(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in counts.items()) or "none"


def _retries(found: Retries) -> str:
    if not found.count:
        return "none"
    return f"{found.count}, the next at {cell(found.next_at)}, the last at {cell(found.last_at)}"


def _poison(found: Poison) -> str:
    first = [f"{each.id} to {each.target}, {each.crashes} crashes" for each in found.first]
    return "; ".join([str(found.count), *first]) if found.count else "none"


def _waiting(found: OldestWaiting | None) -> str:
    if found is None:
        return "nothing"
    return f"{found.id} to {found.target}, due since {cell(found.due_at)}"
