"""`duly deliveries`: list, show, cancel and retry deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.errors import InvalidInput
from duly.records.attempt import HistoryEntry, Step
from duly.records.delivery import Delivery, DeliveryDetail
from duly.records.state import State
from duly.surfaces.cli.terminal.flags import COMMON, Common, backend
from duly.surfaces.cli.terminal.ids import Id, whole_id
from duly.surfaces.cli.terminal.output import answer, answer_page, cell, facts, fields, lines, table
from duly.surfaces.cli.terminal.retry_plans import plan_in_words
from duly.surfaces.cli.terminal.times import moment_or_ago

MOST = 1000
Limit = Annotated[int, Parameter(help=f"How many to show, at most {MOST}.")]
Payloads = Annotated[bool, Parameter(negative=(), help="With --json: the payload of each too.")]

commands = App(name="deliveries", help="List, show, cancel and retry deliveries.")


@Parameter(name="*")
@dataclass(frozen=True)
class DeliveryFlags:
    """Which deliveries to list."""

    id: Annotated[str | None, Parameter(help="The first characters of their ids; at least 4.")] = (
        None
    )
    state: Annotated[str | None, Parameter(help=f"{', '.join(State)}.")] = None
    target: Annotated[
        str | None,
        Parameter(help="Where they go: a handler, endpoint:NAME, or https://example.org."),
    ] = None
    tag: Annotated[str | None, Parameter(help="A tag they have.")] = None
    key: Annotated[str | None, Parameter(help="Their key.")] = None
    stream: Annotated[str | None, Parameter(help="Their stream.")] = None
    schedule: Annotated[str | None, Parameter(help="The schedule they come from.")] = None
    reason: Annotated[str | None, Parameter(help="Why they failed, or were cancelled.")] = None
    text: Annotated[str | None, Parameter(help="A text in their error, payload or key.")] = None
    since: Annotated[
        str | None,
        Parameter(help="Those accepted since then: 2026-11-16T09:00Z, or 2h for two hours ago."),
    ] = None
    until: Annotated[str | None, Parameter(help="Those accepted until then.")] = None
    before: Annotated[str | None, Parameter(help="The last id of the previous page.")] = None

    def checked(self, now: datetime) -> dict[str, Any]:
        """As `app.list` takes it."""
        given = asdict(self)
        for name in ("since", "until"):
            if given[name] is not None:
                given[name] = moment_or_ago(name, given[name], now)
        return given


WANTED = DeliveryFlags()


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
        given = wanted.checked(app.clock.now())
        if wanted.before is not None:
            given["before"] = await whole_id(app, wanted.before)
        found = await app.deliveries.list(**given, limit=limit + 1, payloads=payloads)
    page = found[:limit]
    next_id = page[-1].id if len(found) > limit else None
    answer_page(common.json, page, next_id, lambda: listed(page), flag="--before")


@commands.command
async def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show one delivery with all its attempts and steps."""
    async with backend(common) as app:
        found = await app.deliveries.detail(await whole_id(app, id))
        history = [] if common.json else await app.deliveries.history(found.id)
    answer(common.json, found, lambda: _shown(found, history))


@commands.command
async def cancel(id: Id, /, *, common: Common = COMMON) -> None:
    """Cancel a pending delivery."""
    async with backend(common) as app:
        whole = await whole_id(app, id)
        before = await app.deliveries.get(whole)
        delivery = await app.deliveries.cancel(whole)
    known = before.state is State.CANCELLED
    state = "was cancelled already" if known else delivery.state
    answer(common.json, delivery, lambda: f"{delivery.id} {state}")


@commands.command
async def retry(id: Id, /, *, common: Common = COMMON) -> None:
    """Retry a dead letter, or a waiting delivery now."""
    async with backend(common) as app:
        delivery = await app.deliveries.retry(await whole_id(app, id))
    answer(common.json, delivery, lambda: f"{delivery.id} {delivery.state}")


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


def _shown(found: DeliveryDetail, history: Sequence[HistoryEntry]) -> str:
    endpoint = found.endpoint
    where = None if endpoint is None else f"{endpoint.name}, {endpoint.url or 'removed'}"
    plan = None if found.retry is None else plan_in_words(found.retry)
    others = dict.fromkeys(("attempts", "steps", "transitions"))
    parts = [facts(fields(found) | others | {"endpoint": where, "retry": plan})]
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
