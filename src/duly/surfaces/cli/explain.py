"""`duly schedules explain`: what a cron expression means, without any store."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from duly.domain.cron import pattern
from duly.domain.rules import Cron, Rule, cron
from duly.surfaces.cli.moments import Count, listed, moments
from duly.surfaces.cli.options import Json
from duly.surfaces.cli.render import answer, facts
from duly.system import SystemClock

Tz = Annotated[str, Parameter(help="The zone whose clocks are meant, as in Europe/Oslo.")]
CLOCK_CHANGES = {
    "fixed-time": "a time that the clock skips runs once, just after the gap; one that comes twice "
    "runs the first time",
    "wildcard": "it runs at every real match: nothing is made up, and a repeated hour runs twice",
    "elapsed": "it counts elapsed time, which clock changes do not touch",
}


def explain(expression: str, /, *, tz: Tz = "UTC", count: Count = 5, json: Json = False) -> None:
    """Say what an expression means, and when it is next.

    Parameters
    ----------
    expression
        Five fields, or six with seconds first; or such as @daily or "@every 90s".
    """
    rule = cron(expression, tz)
    kind = _kind(rule)
    found = moments(rule, rule.preview(count, after=SystemClock().now()), tz)
    told = {"rule": rule.describe(), "kind": kind, "clock_changes": CLOCK_CHANGES[kind]}
    answer(
        json,
        {"expression": expression, **told, "next": found},
        lambda: f"{facts(told)}\n\n{listed(found)}",
    )


def _kind(rule: Rule) -> str:
    if not isinstance(rule, Cron):
        return "elapsed"
    return "fixed-time" if pattern(rule.expression).fields.is_fixed else "wildcard"
