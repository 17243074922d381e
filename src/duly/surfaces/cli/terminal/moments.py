"""Moments that a rule names, in UTC and as the clocks of its zone show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from duly.domain.schedules.upcoming import Moment
from duly.surfaces.cli.terminal.output import table

Count = Annotated[int, Parameter(name=("-n", "--count"), help="How many moments to show.")]


def listed(found: Sequence[Moment]) -> str:
    """Moments as a table."""
    return table(("UTC", "local"), ((each.at, local(each)) for each in found), ("local",))


def local(moment: Moment) -> str:
    """What the clock on the wall shows."""
    shown = f"{moment.local.isoformat(' ')} {moment.local.tzinfo}"
    return f"{shown}, moved: the clock skips its time" if moment.shifted else shown
