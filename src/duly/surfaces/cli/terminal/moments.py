"""Runs of a schedule, in UTC and in the zone of its rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from duly.domain.schedules.upcoming import UTC_NAME
from duly.records.schedule import UpcomingRun
from duly.surfaces.cli.terminal.output import table

Count = Annotated[int, Parameter(name=("-n", "--count"), help="How many moments to show.")]


def listed(found: Sequence[UpcomingRun], tz: str | None) -> str:
    """The runs as a table."""
    return table(("UTC", "local"), ((each.at, local(each, tz)) for each in found), ("local",))


def local(run: UpcomingRun, tz: str | None) -> str:
    """The local time of a run; `tz` is the zone of its rule."""
    shown = f"{run.local.isoformat(' ')} {tz or UTC_NAME}"
    return f"{shown}, moved: the clock skips its time" if run.shifted else shown
