"""`duly schedules add`: a schedule from command-line flags."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from duly.domain.deliveries.retry_texts import plan_from_text
from duly.domain.schedules.rule_spec import as_cron, rule_of
from duly.domain.schedules.upcoming import upcoming_runs
from duly.domain.time.rules import Rule
from duly.domain.time.sentences import is_sentence
from duly.records.schedule import CatchUp, DeclaredSchedule, Overlap, RuleSpec, UpcomingRun
from duly.surfaces.cli.terminal.delivery_options import (
    Payload,
    RetryText,
    StreamName,
    Tags,
    content_of,
    target_of,
)
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.moments import local
from duly.surfaces.cli.terminal.output import answer, facts, print_message
from duly.surfaces.cli.terminal.times import moment

Text = str | None


@Parameter(name="*")
@dataclass(frozen=True)
class When:
    """The rule: exactly one of the first four; --cron may be given several times."""

    cron: Annotated[
        tuple[str, ...],
        Parameter(
            help='As in "0 9 * * MON", "every weekday at 9am" or @daily.',
            negative=(),
            show_default=False,
        ),
    ] = ()
    every: Annotated[Text, Parameter(help="An interval, as in 15m or 1h30m.")] = None
    at: Annotated[
        Text, Parameter(help="Once: 2026-11-16T09:00 with --tz, or 2026-11-16T09:00+01:00.")
    ] = None
    yearly: Annotated[Text, Parameter(help="A day of every year, as in 12-24.")] = None
    time: Annotated[Text, Parameter(help="The time of day of --yearly; 09:00 if not given.")] = None
    tz: Annotated[Text, Parameter(help="The time zone, as in Europe/Oslo.")] = None
    dst_gap: Annotated[
        Text, Parameter(help="A time that the clock skips: run (just after the gap) or skip.")
    ] = None
    feb29: Annotated[
        Text, Parameter(help="29 February in other years: feb28 (if not given), mar1 or skip.")
    ] = None
    anchor: Annotated[Text, Parameter(help="A moment that --every counts from.")] = None
    calendar: Annotated[
        Text, Parameter(help="A calendar, whose closed days are left out; see --move.")
    ] = None
    move: Annotated[
        Text, Parameter(help="Closed days: skip, or move to the next or previous business day.")
    ] = None

    def rule(self) -> Rule:
        """The rule; InvalidInput if it is none or more than one."""
        given = asdict(self) | {"cron": self.cron[0] if self.cron else None}
        first = RuleSpec(**given)
        if len(self.cron) < 2:
            return rule_of(first, mark="--")
        rule_of(first, mark="--")  # refuses what says nothing beside --cron
        apart = {"calendar": None, "move": None}
        specs = [RuleSpec(**given | apart | {"cron": each}) for each in self.cron]
        several = RuleSpec(any_of=specs, calendar=self.calendar, move=self.move)
        return rule_of(several, mark="--")


@Parameter(name="*")
@dataclass(frozen=True)
class ScheduleFlags:
    """The options of a schedule."""

    catch_up: Annotated[Text, Parameter(help=f"Missed occurrences: {', '.join(CatchUp)}.")] = None
    window: Annotated[Text, Parameter(help="Skip those missed earlier, as in 6h.")] = None
    cap: Annotated[int | None, Parameter(help="Deliver at most this many missed ones.")] = None
    overlap: Annotated[
        Text, Parameter(help=f"While an earlier one is unfinished: {', '.join(Overlap)}.")
    ] = None
    start: Annotated[Text, Parameter(help="Nothing before, as in 2026-11-16T09:00+01:00.")] = None
    end: Annotated[Text, Parameter(help="Nothing after.")] = None
    max_runs: Annotated[int | None, Parameter(help="End after this many occurrences.")] = None
    jitter: Annotated[Text, Parameter(help="Delay each by up to this long, as in 5m.")] = None
    expires_after: Annotated[Text, Parameter(help="Cancel those not started by then.")] = None
    retry: RetryText = None
    priority: Annotated[int | None, Parameter(help="9 goes first, 1 last.")] = None
    stream: StreamName = None
    tags: Tags = ()

    def options(self) -> dict[str, Any]:
        """The given options, as `App.schedule` takes them."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if self.retry is not None:
            given["retry"] = plan_from_text("retry", self.retry)
        return given | {
            name: moment(name, given[name]) for name in ("start", "end") if name in given
        }


WHEN = When()
FLAGS = ScheduleFlags()


async def add(
    name: str,
    target: str,
    payload: Payload = None,
    /,
    *,
    when: When = WHEN,
    flags: ScheduleFlags = FLAGS,
    common: Common = COMMON,
) -> None:
    """Create a schedule, or change the one of that name; safe to repeat.

    An option that is not given is reset to its default.

    Parameters
    ----------
    name
        Its name.
    target
        A handler, a URL, or endpoint:NAME.
    payload
        JSON, stored unchanged; @file reads it from a file, - from stdin. Default: schedule and
        moment.
    """
    rule, options = when.rule(), flags.options()
    content = content_of(payload)
    if any(map(is_sentence, when.cron)):
        print_message(f"understood as {as_cron(rule)}: {rule.describe()}")
    async with backend(common, create=True) as app:
        declared = await app.schedules.declare(name, rule, target_of(target), content, **options)
        found = await _next_run(app, rule, declared)
    _print_surprises(declared, found)
    answer(common.json, declared, lambda: _text(declared, found))


async def _next_run(app: Backend, rule: Rule, declared: DeclaredSchedule) -> list[UpcomingRun]:
    if declared.next_at is None:
        return []
    if declared.rule.calendar is None:
        return upcoming_runs(rule, [declared.next_at])
    # The days of its calendar are only in the store.
    return list(await app.schedules.preview(declared.name, 1))


def _text(declared: DeclaredSchedule, found: list[UpcomingRun]) -> str:
    shown = {name: getattr(declared, name) for name in ("name", "change", "state")}
    shown |= {"rule": declared.description, "next": found[0].at if found else "none"}
    shown["local"] = local(found[0], declared.rule.zone) if found else None
    return facts(shown)


def _print_surprises(declared: DeclaredSchedule, found: list[UpcomingRun]) -> None:
    """Point out a moved time, or one that has passed."""
    if found and found[0].shifted:
        zone, shown = declared.rule.zone, found[0].local
        print_message(f"the clock in {zone} skips this time; it was moved to {shown:%H:%M}")
    if declared.change == "created" and declared.rule.at and declared.runs and not found:
        print_message("its moment has passed, so it is due now")
