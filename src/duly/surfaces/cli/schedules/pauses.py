"""`duly schedules pause` and `resume`: one, several, or all that match."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from duly.errors import InvalidInput
from duly.records.dead_letter import BulkProgress, BulkResult
from duly.records.schedule import Schedule
from duly.surfaces.cli.terminal.bulk import WHICH, Which, flag, run_bulk, store_flags
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, Why, backend
from duly.surfaces.cli.terminal.output import answer, cell

Part = Annotated[str | None, Parameter(help="Those whose name contains this text.")]


@dataclass(frozen=True, kw_only=True)
class Move:
    """An operation on one schedule, or on all that match."""

    command: str
    verb: str
    question: str
    flags: list[str]
    from_paused: bool
    one: Callable[[Backend, str], Awaitable[Schedule]]
    all: Callable[[Backend, dict[str, Any]], AsyncIterator[BulkProgress]]
    words: Callable[[Schedule, Schedule], str]
    """What became of one schedule, from before and after."""


async def pause(
    *names: str,
    text: Part = None,
    reason: Why = None,
    which: Which = WHICH,
    common: Common = COMMON,
) -> None:
    """Create no deliveries until it is resumed: one schedule, several, or all that match.

    Attempts in progress continue.

    Parameters
    ----------
    names
        Names of schedules; otherwise those that match.
    """
    move = Move(
        command="pause",
        verb="paused",
        question="Pause them?",
        flags=[] if reason is None else flag("reason", reason),
        from_paused=False,
        one=lambda app, name: app.schedules.pause(name, reason),
        all=lambda app, wanted: app.schedules.pause_all(**wanted, reason=reason),
        words=_paused,
    )
    await _run(move, names, text, which, common)


async def resume(
    *names: str,
    text: Part = None,
    from_pause: Annotated[
        bool, Parameter(negative=(), help="Deliver missed occurrences by its catch-up rule.")
    ] = False,
    which: Which = WHICH,
    common: Common = COMMON,
) -> None:
    """Continue from now: one schedule, several, or all that match.

    Occurrences missed during the pause are skipped.

    Parameters
    ----------
    names
        Names of schedules; otherwise those that match.
    """
    move = Move(
        command="resume",
        verb="resumed",
        question="Resume them?",
        flags=["--from-pause"] if from_pause else [],
        from_paused=True,
        one=lambda app, name: app.schedules.resume(name, from_pause=from_pause),
        all=lambda app, wanted: app.schedules.resume_all(**wanted, from_pause=from_pause),
        words=_resumed,
    )
    await _run(move, names, text, which, common)


async def _run(
    move: Move, names: Sequence[str], text: str | None, which: Which, common: Common
) -> None:
    if not names and text is None and not which.everything:
        raise InvalidInput("names", "give names, --text, or --all for all schedules")
    async with backend(common) as app:
        if len(names) == 1 and text is None and not which.dry_run:
            before = await app.schedules.get(names[0])
            after = await move.one(app, names[0])
            return answer(common.json, after, lambda: f"{names[0]} {move.words(before, after)}")
        result = await _move_all(app, move, names, text, which, common)
    moved = f"{result.moved} of {result.matching} {move.verb}"
    matching = f"{result.matching} schedules"
    return answer(common.json, result, lambda: matching if which.dry_run else moved)


async def _move_all(
    app: Backend,
    move: Move,
    names: Sequence[str],
    text: str | None,
    which: Which,
    common: Common,
) -> BulkResult:
    wanted: dict[str, Any] = {"names": list(names), "text": text}
    matching = await app.schedules.count(**wanted, paused=move.from_paused)
    if not which.should_run(matching, f"{matching} schedules match.\n{move.question}"):
        return BulkResult(matching=matching, finished=which.dry_run or not matching)
    command = ["schedules", move.command, *names, *([] if text is None else flag("text", text))]
    command += [*move.flags, *(["--all"] if which.everything else []), *store_flags(common)]
    return await run_bulk(move.verb, matching, move.all(app, wanted), command, resumes=False)


def _paused(before: Schedule, after: Schedule) -> str:
    return after.state if before.paused_at is None else "was paused already"


def _resumed(before: Schedule, after: Schedule) -> str:
    state = f"was {after.state} already" if before.paused_at is None else after.state
    return f"{state}, next {cell(after.next_at) or 'none'}"
