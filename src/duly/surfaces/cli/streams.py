"""`duly streams`: list, show and operate streams."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from duly.records.stream import Stream, StreamKeywords, StreamState
from duly.services.streams import COUNTED_IN_LISTS, COUNTED_UP_TO
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.delivery_options import OnFailure
from duly.surfaces.cli.terminal.flags import COMMON, After, Common, Why, backend
from duly.surfaces.cli.terminal.ids import whole_id
from duly.surfaces.cli.terminal.listing import Columns, answer_list
from duly.surfaces.cli.terminal.output import answer, cell, counted, facts

COLUMNS = Columns(
    "name state on_failure since waiting head=head.id attempt=head.attempt next=head.next_at"
    " error=head.error",
    folds="error",
    waiting=lambda each: counted(each.waiting, COUNTED_IN_LISTS),
)

NO_LIMIT = "none"
Only = Annotated[
    tuple[str, ...],
    Parameter(
        negative=(),
        show_default=False,
        help="Release this one, and keep the others; may be given several times.",
    ),
]
Keep = Annotated[
    tuple[str, ...],
    Parameter(
        negative=(),
        show_default=False,
        help="Keep this one, and release the others; may be given several times.",
    ),
]
BlockFor = Annotated[
    str | None,
    Parameter(help="How long a failed head blocks the others, as in 15m; none: without a limit."),
]

commands = App(
    name="streams", help="List, show, pause, resume, retry, release and configure streams."
)


@commands.command(name="list")
async def list_(
    *,
    state: Annotated[str | None, Parameter(help="Only those that are blocked, or paused.")] = None,
    after: After = "",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List streams by name, with their heads and the number of waiting deliveries."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.streams.list(state, after=after, limit=limit + 1)
    answer_list(common, found, COLUMNS, limit, next_from="name")


@commands.command
async def show(name: str, /, *, common: Common = COMMON) -> None:
    """Show one stream: its state and head, what waits, and what to do."""
    async with backend(common) as app:
        stream = await app.streams.get(name)
    answer(common.json, stream, lambda: shown(stream))


@commands.command
async def pause(name: str, /, *, reason: Why = None, common: Common = COMMON) -> None:
    """Start no more of its deliveries until it is resumed; those claimed are finished."""
    async with backend(common) as app:
        _print(await app.streams.pause(name, reason), common)


@commands.command
async def resume(name: str, /, *, common: Common = COMMON) -> None:
    """Continue a paused stream; one that is blocked stays blocked."""
    async with backend(common) as app:
        _print(await app.streams.resume(name), common)


@commands.command
async def retry_now(name: str, /, *, common: Common = COMMON) -> None:
    """Retry its head now, whether it waits or is dead."""
    async with backend(common) as app:
        _print(await app.streams.retry_now(name), common)


@commands.command
async def release(
    name: str, /, *, only: Only = (), keep: Keep = (), common: Common = COMMON
) -> None:
    """Let those behind a failed head proceed; it is retried beside them, or stays dead.

    With --only or --keep, the head stays, and the selected ones run beside it.
    """
    async with backend(common) as app:
        chosen = {
            field: [await whole_id(app, each) for each in given]
            for field, given in (("only", only), ("keep", keep))
            if given
        }
        _print(await app.streams.release(name, **chosen), common)


@commands.command
async def cancel_head(name: str, /, *, common: Common = COMMON) -> None:
    """Cancel its head, or ask for it if it runs; those behind it proceed."""
    async with backend(common) as app:
        _print(await app.streams.cancel_head(name), common)


@commands.command
async def dead_letter_head(name: str, /, *, note: Why = None, common: Common = COMMON) -> None:
    """Make its head a dead letter; those behind it proceed under any policy."""
    async with backend(common) as app:
        _print(await app.streams.dead_letter_head(name, note), common)


@commands.command
async def configure(
    name: str,
    /,
    *,
    on_failure: OnFailure = None,
    block_for: BlockFor = None,
    common: Common = COMMON,
) -> None:
    """Set what a failed head does to those behind it, and for how long at most."""
    options: StreamKeywords = {}
    if on_failure is not None:
        options["on_failure"] = on_failure
    if block_for is not None:
        options["block_for"] = None if block_for == NO_LIMIT else block_for
    async with backend(common, create=True) as app:
        stream = await app.streams.configure(name, **options)
    answer(common.json, stream, lambda: f"{name} on failure {_policy(stream)}")


def _policy(stream: Stream) -> str:
    limit = stream.block_for
    return stream.on_failure if limit is None else f"{stream.on_failure} for {limit:g} s"


def _print(stream: Stream, common: Common) -> None:
    answer(common.json, stream, lambda: f"{stream.name} {in_words(stream)}")


def in_words(stream: Stream) -> str:
    """Its state in a few words."""
    head = stream.head
    if head is None or stream.state is StreamState.PAUSED:
        return str(stream.state)
    when = f", next at {cell(head.next_at)}" if head.next_at is not None else ""
    return f"{stream.state}, head {head.id}{when}"


def shown(stream: Stream) -> str:
    """All of a stream, and what to do."""
    head = stream.head
    about: dict[str, object] = {
        "name": stream.name,
        "state": stream.state,
        "since": stream.since,
        "on_failure": _policy(stream),
        "blocked_until": stream.blocked_until,
        "paused_at": stream.paused_at,
        "pause_reason": stream.pause_reason,
        "waiting": counted(stream.waiting, COUNTED_UP_TO),
        "oldest_at": stream.oldest_at,
    }
    if head is not None:
        about |= {
            "head": f"{head.id}, {head.state}",
            "attempt": head.attempt,
            "next_at": head.next_at,
            "reason": head.reason,
            "error": head.error,
        }
    return facts(about | {"to_do": stream.to_do})
