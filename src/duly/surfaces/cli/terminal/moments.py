"""Runs of a schedule, in UTC and in the zone of its rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from cyclopts import Parameter

from duly.domain.schedules.upcoming import UTC_NAME
from duly.records.schedule import UpcomingRun
from duly.surfaces.cli.terminal.output import table

Count = Annotated[int, Parameter(name=("-n", "--count"), help="How many moments to show.")]


def listed(found: Sequence[UpcomingRun], tz: str | None) -> str:
    """The runs as a table, with what a calendar left out before each."""
    rows = [row for each in found for row in (*_left_out(each, tz), (each.at, local(each, tz)))]
    return table(("UTC", "local"), rows, ("local",))


def _left_out(run: UpcomingRun, tz: str | None) -> Iterator[tuple[object, str]]:
    for each in run.left_out:
        more = f" and {each.more} more of that day" if each.more else ""
        shown = f"{each.local.isoformat(' ')} {tz or UTC_NAME}{more}"
        yield each.at, f"{shown} left out: {each.reason}"


def local(run: UpcomingRun, tz: str | None) -> str:
    """The local time of a run; `tz` is the zone of its rule."""
    shown = f"{run.local.isoformat(' ')} {tz or UTC_NAME}"
    if run.moved_from is not None:
        shown += f", moved from {run.moved_from:%a %Y-%m-%d %H:%M}: {run.reason}"
    return f"{shown}, moved: the clock skips its time" if run.shifted else shown
