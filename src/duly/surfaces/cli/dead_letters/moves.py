"""`duly dead retry`, `edit` and `discard`: one, several, or all that match."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from duly.domain.endpoints.endpoint import CHECKS
from duly.errors import InvalidInput
from duly.records.dead_letter import BulkProgress, BulkResult, DeadLetterFilter
from duly.records.delivery import Delivery
from duly.services.dead_letters import checked_note
from duly.surfaces.cli.dead_letters.filters import SOUGHT, DeadLetterFlags
from duly.surfaces.cli.deliveries.commands import record
from duly.surfaces.cli.terminal.bulk import WHICH, Rate, Which, carry_out, flag, whereabouts
from duly.surfaces.cli.terminal.delivery_options import Payload, content_of
from duly.surfaces.cli.terminal.flags import COMMON, Books, Common, books
from duly.surfaces.cli.terminal.ids import whole_id
from duly.surfaces.cli.terminal.output import answer, talk

Note = Annotated[str, Parameter(help="Why, for whoever wonders.")]


@Parameter(name="*")
@dataclass(frozen=True)
class RetryOptions:
    """How they are tried again."""

    rate: Rate = None
    keep_attempts: Annotated[
        bool,
        Parameter(
            negative=(), help="Attempts that were spent stay spent; who spent all gets one more."
        ),
    ] = False

    def flags(self) -> list[str]:
        """The same on another command line."""
        given = [] if self.rate is None else ["--rate", f"{self.rate:g}"]
        return [*given, *(["--keep-attempts"] if self.keep_attempts else [])]


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What is to be done to many, and to which."""

    command: str
    verb: str
    question: str
    moves: Callable[[DeadLetterFilter], AsyncIterator[BulkProgress]]
    flags: list[str]
    ids: tuple[str, ...]
    sought: DeadLetterFlags


HOW = RetryOptions()


async def retry(
    *ids: str,
    sought: DeadLetterFlags = SOUGHT,
    how: RetryOptions = HOW,
    which: Which = WHICH,
    common: Common = COMMON,
) -> None:
    """Try dead letters again: one, several, or all that match; safe to stop and repeat.

    Parameters
    ----------
    ids
        Dead letters by their ids, or how those begin; otherwise those that match.
    """
    CHECKS["rate"](how.rate)
    reset = not how.keep_attempts
    async with books(common) as app:
        dead = app.dead_letters
        if _is_one(ids, sought, which):
            id = await whole_id(app, ids[0], dead=True)
            return _tell(await dead.retry(id, reset_attempts=reset), common)

        def moves(wanted: DeadLetterFilter) -> AsyncIterator[BulkProgress]:
            return dead.retry_all(wanted, rate=how.rate, reset_attempts=reset)

        errand = Errand(
            command="retry",
            verb="retried",
            question="Try them again?",
            moves=moves,
            flags=how.flags(),
            ids=ids,
            sought=sought,
        )
        await _run(app, errand, which, common)
    return None


async def discard(
    *ids: str,
    note: Note,
    sought: DeadLetterFlags = SOUGHT,
    which: Which = WHICH,
    common: Common = COMMON,
) -> None:
    """Give dead letters up for good: one, several, or all that match.

    Parameters
    ----------
    ids
        Dead letters by their ids, or how those begin; otherwise those that match.
    """
    checked_note(note)
    async with books(common) as app:
        dead = app.dead_letters
        if _is_one(ids, sought, which):
            return _tell(await dead.discard(await whole_id(app, ids[0], dead=True), note), common)

        def moves(wanted: DeadLetterFilter) -> AsyncIterator[BulkProgress]:
            return dead.discard_all(wanted, note)

        errand = Errand(
            command="discard",
            verb="discarded",
            question="Give them up for good?",
            moves=moves,
            flags=flag("note", note),
            ids=ids,
            sought=sought,
        )
        await _run(app, errand, which, common)
    return None


async def edit(id: str, payload: Payload, /, *, common: Common = COMMON) -> None:
    """Give a dead letter another payload and try it again, with all its attempts.

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


def _is_one(ids: tuple[str, ...], sought: DeadLetterFlags, which: Which) -> bool:
    return len(ids) == 1 and sought == SOUGHT and not which.dry_run


async def _run(app: Books, errand: Errand, which: Which, common: Common) -> None:
    now = app.clock.now()
    ids = [await whole_id(app, each, dead=True) for each in errand.ids]
    wanted = errand.sought.required(now, ids, which.everything)
    matching = await app.dead_letters.count(wanted)
    result = BulkResult(matching=matching, finished=which.dry_run or not matching)
    if len(ids) > matching:
        talk(f"{len(ids) - matching} of the {len(ids)} ids are of no dead letter that matches")
    if which.wants(matching, f"{matching} dead letters match.\n{errand.question}"):
        again = ["dead", errand.command, *ids, *errand.sought.flags(now), *errand.flags]
        again += [*(["--all"] if which.everything else []), *whereabouts(common)]
        result = await carry_out("moving", matching, errand.moves(wanted), again)
    moved = f"{result.moved} of {matching} {errand.verb}"
    answer(common.json, result, lambda: f"{matching} dead letters" if which.dry_run else moved)


def _tell(delivery: Delivery, common: Common) -> None:
    answer(common.json, record(delivery), lambda: f"{delivery.id} {delivery.state}")
