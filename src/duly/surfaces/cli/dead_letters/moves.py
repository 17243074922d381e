"""`duly dead retry`, `edit`, `discard`, `hold`, `release` and `give-up`: one, or all that match."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from duly.domain.dead_letters import checked_note, narrowed
from duly.domain.endpoints.endpoint import CHECKS
from duly.errors import InvalidInput
from duly.records.dead_letter import BulkProgress, BulkResult, DeadLetterFilter
from duly.records.delivery import Delivery, shown_state
from duly.records.recovery import WhichLetters
from duly.surfaces.cli.dead_letters.filters import FLAGS, DeadLetterFlags
from duly.surfaces.cli.terminal.bulk import WHICH, Rate, Which, flag, run_bulk, store_flags
from duly.surfaces.cli.terminal.delivery_options import Payload, content_of
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.ids import whole_id
from duly.surfaces.cli.terminal.output import answer, print_message

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
        """The same options as command-line flags."""
        given = [] if self.rate is None else ["--rate", f"{self.rate:g}"]
        return [*given, *(["--keep-attempts"] if self.keep_attempts else [])]


@dataclass(frozen=True, kw_only=True)
class Move:
    """An operation on one dead letter, or on all that match."""

    command: str
    verb: str
    question: str
    flags: list[str]
    disposition: WhichLetters | None
    """Which ones it moves, unless ids or the filter say otherwise."""
    one: Callable[[Backend, str], Awaitable[Delivery]]
    all: Callable[[Backend, DeadLetterFilter], AsyncIterator[BulkProgress]]


Command = Callable[..., Coroutine[Any, Any, None]]
HOW = RetryOptions()
IDS = """
Parameters
----------
ids
    Ids of dead letters, or their first characters; otherwise those that match.
"""


async def retry(
    *ids: str,
    flags: DeadLetterFlags = FLAGS,
    how: RetryOptions = HOW,
    which: Which = WHICH,
    common: Common = COMMON,
) -> None:
    """Retry dead letters: one, several, or all that match; safe to stop and repeat.

    Parameters
    ----------
    ids
        Ids of dead letters, or their first characters; otherwise those that match.
    """
    CHECKS["rate"](how.rate)
    reset = not how.keep_attempts
    move = Move(
        command="retry",
        verb="retried",
        question="Retry them?",
        flags=how.flags(),
        disposition=WhichLetters.OPEN,
        one=lambda app, id: app.dead_letters.retry(id, reset_attempts=reset),
        all=lambda app, wanted: app.dead_letters.retry_all(
            wanted, rate=how.rate, reset_attempts=reset
        ),
    )
    await _run(move, ids, flags, which, common)


def _with_note(
    command: str,
    verb: str,
    question: str,
    summary: str,
    one: Callable[[Backend, str, str], Awaitable[Delivery]],
    all: Callable[[Backend, DeadLetterFilter, str], AsyncIterator[BulkProgress]],
    disposition: WhichLetters | None = None,
) -> Command:
    """A command that needs a note."""

    async def run(
        *ids: str,
        note: Note,
        flags: DeadLetterFlags = FLAGS,
        which: Which = WHICH,
        common: Common = COMMON,
    ) -> None:
        checked_note(note)
        move = Move(
            command=command,
            verb=verb,
            question=question,
            flags=flag("note", note),
            disposition=disposition,
            one=lambda app, id: one(app, id, note),
            all=lambda app, wanted: all(app, wanted, note),
        )
        await _run(move, ids, flags, which, common)

    run.__doc__ = f"{summary}\n{IDS}"
    return run


discard = _with_note(
    "discard",
    "discarded",
    "Discard them for good?",
    "Cancel dead letters for good: one, several, or all that match.",
    lambda app, id, note: app.dead_letters.discard(id, note),
    lambda app, wanted, note: app.dead_letters.discard_all(wanted, note),
)
hold = _with_note(
    "hold",
    "held",
    "Hold them?",
    "Hold dead letters: no policy and no bulk retry touches them until they are released.",
    lambda app, id, note: app.dead_letters.hold(id, note),
    lambda app, wanted, note: app.dead_letters.hold_all(wanted, note),
    WhichLetters.OPEN,
)
give_up = _with_note(
    "give-up",
    "given up",
    "Give them up for good?",
    "Give dead letters up for good: they stay in the list, and nothing retries them any more.",
    lambda app, id, note: app.dead_letters.give_up(id, note),
    lambda app, wanted, note: app.dead_letters.give_up_all(wanted, note),
)


async def release(
    *ids: str, flags: DeadLetterFlags = FLAGS, which: Which = WHICH, common: Common = COMMON
) -> None:
    """Release held dead letters; recovery policies apply to them again.

    Parameters
    ----------
    ids
        Ids of dead letters, or their first characters; otherwise those that match.
    """
    move = Move(
        command="release",
        verb="released",
        question="Release them?",
        flags=[],
        disposition=WhichLetters.HELD,
        one=lambda app, id: app.dead_letters.release(id),
        all=lambda app, wanted: app.dead_letters.release_all(wanted),
    )
    await _run(move, ids, flags, which, common)


async def edit(id: str, payload: Payload, /, *, common: Common = COMMON) -> None:
    """Replace the payload of a dead letter and retry it with all its attempts.

    Parameters
    ----------
    id
        The id of the dead letter, or its first characters.
    payload
        JSON, stored unchanged; @file reads it from a file, - from stdin.
    """
    content = content_of(payload)
    if content is None:
        raise InvalidInput("payload", "give the new payload")
    async with backend(common) as app:
        whole = await whole_id(app, id, dead=True)
        _print(await app.dead_letters.edit(whole, content), common)


async def _run(
    move: Move, given: Sequence[str], flags: DeadLetterFlags, which: Which, common: Common
) -> None:
    async with backend(common) as app:
        ids = [await whole_id(app, each, dead=True) for each in given]
        if len(ids) == 1 and flags == FLAGS and not which.dry_run:
            return _print(await move.one(app, ids[0]), common)
        result = await _move_all(app, move, ids, flags, which, common)
    matching = f"{result.matching} dead letters"
    moved = f"{result.moved} of {result.matching} {move.verb}"
    return answer(common.json, result, lambda: matching if which.dry_run else moved)


async def _move_all(
    app: Backend,
    move: Move,
    ids: Sequence[str],
    flags: DeadLetterFlags,
    which: Which,
    common: Common,
) -> BulkResult:
    now = app.clock.now()
    wanted = flags.required(now, ids, which.everything)
    narrow = wanted if move.disposition is None else narrowed(wanted, move.disposition)
    matching = await app.dead_letters.count(narrow)
    if len(ids) > matching:
        print_message(f"{len(ids) - matching} of {len(ids)} ids match no dead letter")
    if not which.should_run(matching, f"{matching} dead letters match.\n{move.question}"):
        return BulkResult(matching=matching, finished=which.dry_run or not matching)
    command = ["dead", move.command, *ids, *flags.flags(now), *move.flags]
    command += [*(["--all"] if which.everything else []), *store_flags(common)]
    return await run_bulk("moving", matching, move.all(app, wanted), command)


def _print(delivery: Delivery, common: Common) -> None:
    answer(common.json, delivery, lambda: f"{delivery.id} {shown_state(delivery)}")
