"""`duly schedules explain`: the meaning of a rule; it needs a store only for a calendar."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from duly.domain.schedules.rule_spec import explained, rule_of
from duly.domain.schedules.upcoming import upcoming_runs
from duly.domain.time.rules import cron
from duly.records.schedule import RuleExplanation, RuleSpec
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.moments import Count, listed
from duly.surfaces.cli.terminal.output import answer, facts, fields
from duly.system import SystemClock

Tz = Annotated[str, Parameter(help="The time zone, as in Europe/Oslo.")]
Calendar = Annotated[
    str | None, Parameter(help="A calendar in the store, whose closed days are left out.")
]
Move = Annotated[
    str | None,
    Parameter(help="Closed days: skip, or move to the next or previous business day."),
]


async def explain(
    expression: str,
    /,
    *,
    tz: Tz = "UTC",
    calendar: Calendar = None,
    move: Move = None,
    count: Count = 5,
    common: Common = COMMON,
) -> None:
    """Show what an expression means, and its next moments.

    Parameters
    ----------
    expression
        Five fields, or six with seconds first; words, as in "every weekday at 9am"; or a form like
        @daily or "@every 90s".
    """
    found = await _explained(expression, tz, calendar, move, count, common)
    words = fields(found)
    del words["next"]
    answer(common.json, found, lambda: f"{facts(words)}\n\n{listed(found.next, tz)}")


async def _explained(
    expression: str, tz: str, calendar: str | None, move: str | None, count: int, common: Common
) -> RuleExplanation:
    if calendar is None and move is None:
        rule = cron(expression, tz)
        return explained(
            rule, upcoming_runs(rule, rule.preview(count, after=SystemClock().now()), tz)
        )
    spec = RuleSpec(cron=expression, tz=tz, calendar=calendar, move=move)
    async with backend(common) as app:
        return await app.schedules.explain(rule_of(spec, mark="--"), count)
