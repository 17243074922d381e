"""`duly batches`: open, list, show, close and cancel batches."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.records.batch import Batch, BatchState
from duly.surfaces.cli.deliveries.commands import Limit, checked_limit
from duly.surfaces.cli.terminal.delivery_options import (
    Key,
    Payload,
    Priority,
    RetryText,
    content_of,
    read_option,
    target_of,
)
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.ids import Id, only_id
from duly.surfaces.cli.terminal.listing import Columns, answer_list
from duly.surfaces.cli.terminal.output import answer, facts

COLUMNS = Columns(
    "id name state members waiting processing completed dead cancelled opened_at then",
    folds="then",
)
FIELDS = (
    *("id", "name", "state", "then", "members", "waiting", "processing", "completed", "dead"),
    *("cancelled", "opened_at", "closed_at", "cancelled_at", "finished_at", "counted_at"),
    *("completion", "problem"),
)
SEARCHED = 1000
"""How many batches are searched for the beginning of an id."""

commands = App(name="batches", help="Open, list, show, close and cancel batches of deliveries.")


@commands.command(name="open")
async def open_(
    target: str,
    payload: Payload = None,
    /,
    *,
    name: Annotated[str | None, Parameter(help="A name for people.")] = None,
    key: Key = None,
    priority: Priority = 5,
    retry: RetryText = None,
    common: Common = COMMON,
) -> None:
    """Open a batch and print its id; add members with `duly deliver --batch`.

    Parameters
    ----------
    target
        Where its completion goes, when all members have ended: a handler, a URL, or endpoint:NAME.
    payload
        A JSON object; the counts are added as `batch`. @file reads it from a file, - from stdin.
    """
    then: dict[str, Any] = {
        "target": target_of(target),
        "payload": content_of(payload),
        "key": key,
        "priority": priority,
        "retry": read_option("retry", retry),
    }
    async with backend(common, create=True) as app:
        batch = await app.batches.open(then, name=name)
    answer(common.json, batch, lambda: batch.id)


@commands.command(name="list")
async def list_(
    *,
    state: Annotated[str | None, Parameter(help=f"{', '.join(BatchState)}.")] = None,
    before: Annotated[str | None, Parameter(help="The last id of the previous page.")] = None,
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List batches, newest first, with their progress."""
    checked_limit(limit)
    async with backend(common) as app:
        found = await app.batches.list(state, before=before, limit=limit + 1)
    answer_list(common, found, COLUMNS, limit, flag="--before")


@commands.command
async def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show one batch and the progress of its members."""
    async with backend(common) as app:
        batch = await app.batches.get(await _whole(app, id))
    answer(common.json, batch, lambda: facts({name: getattr(batch, name) for name in FIELDS}))


@commands.command
async def close(id: Id, /, *, common: Common = COMMON) -> None:
    """Take no more members: it finishes when those that it has have ended."""
    async with backend(common) as app:
        _print(await app.batches.close(await _whole(app, id)), common)


@commands.command
async def cancel(id: Id, /, *, common: Common = COMMON) -> None:
    """Take no more members, cancel those that wait, and send no completion."""
    async with backend(common) as app:
        _print(await app.batches.cancel(await _whole(app, id)), common)


async def _whole(app: Backend, given: str) -> str:
    """The whole id of a batch; its beginning is searched among the newest."""

    async def search() -> list[str]:
        return [each.id for each in await app.batches.list(limit=SEARCHED)]

    return await only_id(given, search, "batch", "batches")


def _print(batch: Batch, common: Common) -> None:
    answer(common.json, batch, lambda: f"{batch.id} {in_words(batch)}")


def in_words(batch: Batch) -> str:
    """Its state and progress in a few words."""
    ended = batch.completed + batch.dead + batch.cancelled
    return f"{batch.state}, {ended} of {batch.members} members have ended"
