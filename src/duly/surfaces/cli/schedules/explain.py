"""`duly schedules explain`: what a cron expression means, without any store."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from duly.domain.schedules.rule_spec import explained
from duly.domain.schedules.upcoming import upcoming_runs
from duly.domain.time.rules import cron
from duly.surfaces.cli.terminal.flags import Json
from duly.surfaces.cli.terminal.moments import Count, listed
from duly.surfaces.cli.terminal.output import answer, facts, fields
from duly.system import SystemClock

Tz = Annotated[str, Parameter(help="The zone whose clocks are meant, as in Europe/Oslo.")]


def explain(expression: str, /, *, tz: Tz = "UTC", count: Count = 5, json: Json = False) -> None:
    """Say what an expression means, and when it is next.

    Parameters
    ----------
    expression
        Five fields, or six with seconds first; or such as @daily or "@every 90s".
    """
    rule = cron(expression, tz)
    upcoming = upcoming_runs(rule, rule.preview(count, after=SystemClock().now()), tz)
    found = explained(rule, upcoming)
    words = fields(found)
    del words["next"]
    answer(json, found, lambda: f"{facts(words)}\n\n{listed(upcoming, tz)}")
