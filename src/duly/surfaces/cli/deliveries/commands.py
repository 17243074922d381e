"""`duly deliveries`: list, show, cancel and retry deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from duly.errors import InvalidInput
from duly.records.attempt import HistoryEntry, Step
from duly.records.delivery import Delivery, DeliveryDetail
from duly.services.deliveries.handles import wait_seconds
from duly.surfaces.cli.deliveries.filters import WANTED, DeliveryFlags
from duly.surfaces.cli.deliveries.moves import cancel, retry
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.ids import Id, whole_id
from duly.surfaces.cli.terminal.output import answer, answer_page, cell, facts, fields, lines, table
from duly.surfaces.cli.terminal.retry_plans import plan_in_words

MOST = 1000
PAGE = 200
"""The most that a server lists at once."""
Limit = Annotated[int, Parameter(help=f"How many to show, at most {MOST}.")]
Payloads = Annotated[bool, Parameter(negative=(), help="With --json: the payload of each too.")]
Wait = Annotated[str | None, Parameter(help="Until it has ended, up to 60s: --wait 30s.")]

commands = App(name="deliveries", help="List, show, cancel and retry deliveries.")


@commands.command(name="list")
async def list_(
    *,
    wanted: DeliveryFlags = WANTED,
    limit: Limit = 50,
    payloads: Payloads = False,
    common: Common = COMMON,
) -> None:
    """List deliveries, newest first."""
    checked_limit(limit)
    async with backend(common) as app:
        given = wanted.checked(app.clock.now()) | {"payloads": payloads}
        if wanted.sort is not None:
            page, following = await _sorted(app, given, limit)
        else:
            page, following = await _newest(app, given, limit)
    show = by_lateness if wanted.sort is not None else listed
    answer_page(common.json, page, following, lambda: show(page), flag="--before")


async def _newest(
    app: Backend, given: dict[str, Any], limit: int
) -> tuple[Sequence[Delivery], str | None]:
    if given["before"] is not None:
        given["before"] = await whole_id(app, given["before"])
    found = await app.deliveries.list(**given, limit=limit + 1)
    page = found[:limit]
    return page, page[-1].id if len(found) > limit else None


async def _sorted(
    app: Backend, given: dict[str, Any], limit: int
) -> tuple[Sequence[Delivery], str | None]:
    """Like `_newest`; the cursor is more than an id, so it comes with the page."""
    found: list[Delivery] = []
    following = given["before"]
    while len(found) < limit:
        most = min(limit - len(found), PAGE)
        page = await app.deliveries.page(**given | {"before": following, "limit": most})
        found += page.items
        following = page.next
        if following is None:
            break
    return found, following


@commands.command
async def show(id: Id, /, *, wait: Wait = None, common: Common = COMMON) -> None:
    """Show one delivery with its result and all its attempts and steps."""
    async with backend(common) as app:
        found = await app.deliveries.detail(await whole_id(app, id), wait=wait_seconds(wait))
        history = [] if common.json else await app.deliveries.history(found.id)
    answer(common.json, found, lambda: shown(found, history))


commands.command(cancel)
commands.command(retry)


def checked_limit(limit: int) -> int:
    """The size of a page; InvalidInput if it is too large."""
    if not 1 <= limit <= MOST:
        raise InvalidInput("limit", f"{limit} is not from 1 to {MOST}")
    return limit


def listed(found: Sequence[Delivery]) -> str:
    """Deliveries as a table."""
    return table(
        ("id", "target", "state", "attempt", "due", "error"),
        (
            (each.id, each.target, each.state, each.attempt, each.due_at, each.error)
            for each in found
        ),
        folds=("error",),
    )


def by_lateness(found: Sequence[Delivery]) -> str:
    """Deliveries as a table, with when each was due and started."""
    return table(
        ("id", "target", "state", "attempt", "due", "started"),
        (
            (each.id, each.target, each.state, each.attempt, each.due_at, each.started_at)
            for each in found
        ),
    )


def shown(found: DeliveryDetail, history: Sequence[HistoryEntry]) -> str:
    """All of a delivery, its steps and its history."""
    endpoint = found.endpoint
    where = None if endpoint is None else f"{endpoint.name}, {endpoint.url or 'removed'}"
    plan = None if found.retry is None else plan_in_words(found.retry)
    result = None if found.result is None else msgspec.Raw(msgspec.json.encode(found.result))
    others: dict[str, object] = dict.fromkeys(("attempts", "steps", "transitions"))
    others |= {"endpoint": where, "retry": plan, "result": result}
    parts = [facts(fields(found) | others)]
    if found.steps:
        parts.append(_steps(found.steps))
    if history:
        parts += [_history(history), *_tracebacks(history)]
    return "\n\n".join(parts)


def _steps(steps: Sequence[Step]) -> str:
    return table(
        ("step", "attempt", "done", "result"),
        ((each.name, each.attempt, each.done_at, each.result_json) for each in steps),
        folds=("result",),
    )


def _history(attempts: Sequence[HistoryEntry]) -> str:
    return table(
        ("attempt", "outcome", "worker", "started", "finished", "reason", "error"),
        (
            (
                each.attempt,
                each.outcome,
                each.worker,
                cell(each.started_at),
                cell(each.finished_at),
                each.reason,
                _error(each),
            )
            for each in attempts
        ),
        folds=("error",),
    )


def _tracebacks(attempts: Sequence[HistoryEntry]) -> list[str]:
    """Each traceback once, with the attempts that it belongs to."""
    found: dict[str, list[str]] = {}
    for each in attempts:
        if each.traceback is not None:
            found.setdefault(each.traceback, []).append(str(each.attempt))
    return [
        f"attempt {', '.join(numbers)}\n{lines(traceback)}" for traceback, numbers in found.items()
    ]


def _error(attempt: HistoryEntry) -> str | None:
    """The error, and the note about an unusual answer."""
    note = (attempt.answer or {}).get("note")
    return "; ".join(each for each in (attempt.error, note) if each) or None
