"""`duly dead retry`, `edit` and `discard`: one, several, or all that match."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from duly.domain.dead_letters import checked_note
from duly.domain.endpoints.endpoint import CHECKS
from duly.errors import InvalidInput
from duly.records.dead_letter import BulkProgress, BulkResult, DeadLetterFilter
from duly.records.delivery import Delivery
from duly.surfaces.cli.dead_letters.filters import SOUGHT, DeadLetterFlags
from duly.surfaces.cli.terminal.bulk import WHICH, Rate, Which, carry_out, flag, whereabouts
from duly.surfaces.cli.terminal.delivery_options import Payload, content_of
from duly.surfaces.cli.terminal.flags import COMMON, Books, Common, books
from duly.surfaces.cli.terminal.ids import whole_id
from duly.surfaces.cli.terminal.output import answer, talk

Note = Annotated[str, Parameter(help="Why; it is stored and shown later.")]


@Parameter(name="*")
@dataclass(frozen=True)
class RetryOptions:
    """How they are retried."""

    rate: Rate = None
    keep_attempts: Annotated[
        bool,
        Parameter(negative=(), help="Used attempts stay used; with none left, it gets one more."),
    ] = False

    def flags(self) -> list[str]:
        """The same on another command line."""
        given = [] if self.rate is None else ["--rate", f"{self.rate:g}"]
        return [*given, *(["--keep-attempts"] if self.keep_attempts else [])]


@dataclass(frozen=True, kw_only=True)
class Move:
    """What a command does with one dead letter, or with all that match."""

    command: str
    verb: str
    question: str
    flags: list[str]
    one: Callable[[Books, str], Awaitable[Delivery]]
    all: Callable[[Books, DeadLetterFilter], AsyncIterator[BulkProgress]]


HOW = RetryOptions()


async def retry(
    *ids: str,
    sought: DeadLetterFlags = SOUGHT,
    how: RetryOptions = HOW,
    which: Which = WHICH,
    common: Common = COMMON,
) -> None:
    """Retry dead letters: one, several, or all that match; safe to stop and repeat.

    Parameters
    ----------
    ids
        Dead letters by their ids, or how those begin; otherwise those that match.
    """
    CHECKS["rate"](how.rate)
    reset = not how.keep_attempts
    move = Move(
        command="retry",
        verb="retried",
        question="Try them again?",
        flags=how.flags(),
        one=lambda app, id: app.dead_letters.retry(id, reset_attempts=reset),
        all=lambda app, wanted: app.dead_letters.retry_all(
            wanted, rate=how.rate, reset_attempts=reset
        ),
    )
    await _run(move, ids, sought, which, common)


async def discard(
    *ids: str,
    note: Note,
    sought: DeadLetterFlags = SOUGHT,
    which: Which = WHICH,
    common: Common = COMMON,
) -> None:
    """Cancel dead letters for good: one, several, or all that match.

    Parameters
    ----------
    ids
        Dead letters by their ids, or how those begin; otherwise those that match.
    """
    checked_note(note)
    move = Move(
        command="discard",
        verb="discarded",
        question="Give them up for good?",
        flags=flag("note", note),
        one=lambda app, id: app.dead_letters.discard(id, note),
        all=lambda app, wanted: app.dead_letters.discard_all(wanted, note),
    )
    await _run(move, ids, sought, which, common)


async def edit(id: str, payload: Payload, /, *, common: Common = COMMON) -> None:
    """Replace the payload of a dead letter and retry it with all its attempts.

    Parameters
    ----------
    id
        The dead letter, by its id or how that begins.
    payload
        JSON, passed on as it is; @file reads it from there, - from stdin.
    """
    content = content_of(payload)
    if content is None:
        raise InvalidInput("payload", "give the new one")
    async with books(common) as app:
        whole = await whole_id(app, id, dead=True)
        _tell(await app.dead_letters.edit(whole, content), common)


async def _run(
    move: Move, given: Sequence[str], sought: DeadLetterFlags, which: Which, common: Common
) -> None:
    async with books(common) as app:
        ids = [await whole_id(app, each, dead=True) for each in given]
        if len(ids) == 1 and sought == SOUGHT and not which.dry_run:
            return _tell(await move.one(app, ids[0]), common)
        result = await _move_all(app, move, ids, sought, which, common)
    matching = f"{result.matching} dead letters"
    moved = f"{result.moved} of {result.matching} {move.verb}"
    return answer(common.json, result, lambda: matching if which.dry_run else moved)


async def _move_all(
    app: Books,
    move: Move,
    ids: Sequence[str],
    sought: DeadLetterFlags,
    which: Which,
    common: Common,
) -> BulkResult:
    now = app.clock.now()
    wanted = sought.required(now, ids, which.everything)
    matching = await app.dead_letters.count(wanted)
    if len(ids) > matching:
        talk(f"{len(ids) - matching} of the {len(ids)} ids are of no dead letter that matches")
    if not which.wants(matching, f"{matching} dead letters match.\n{move.question}"):
        return BulkResult(matching=matching, finished=which.dry_run or not matching)
    again = ["dead", move.command, *ids, *sought.flags(now), *move.flags]
    again += [*(["--all"] if which.everything else []), *whereabouts(common)]
    return await carry_out("moving", matching, move.all(app, wanted), again)


def _tell(delivery: Delivery, common: Common) -> None:
    answer(common.json, delivery, lambda: f"{delivery.id} {delivery.state}")
