"""`duly schedules explain`: the meaning of a rule; it needs no store."""

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

Tz = Annotated[str, Parameter(help="The time zone, as in Europe/Oslo.")]


def explain(expression: str, /, *, tz: Tz = "UTC", count: Count = 5, json: Json = False) -> None:
    """Show what an expression means, and its next moments.

    Parameters
    ----------
    expression
        Five fields, or six with seconds first; words, as in "every weekday at 9am"; or a form like
        @daily or "@every 90s".
    """
    rule = cron(expression, tz)
    upcoming = upcoming_runs(rule, rule.preview(count, after=SystemClock().now()), tz)
    found = explained(rule, upcoming)
    words = fields(found)
    del words["next"]
    answer(json, found, lambda: f"{facts(words)}\n\n{listed(upcoming, tz)}")
