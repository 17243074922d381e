"""`duly deliveries cancel` and `retry`: one, or all unfinished ones that match."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from duly.domain.deliveries.states import checked_state
from duly.errors import InvalidInput
from duly.records.dead_letter import BulkProgress, BulkResult
from duly.records.delivery import Delivery
from duly.records.state import State
from duly.records.status import COUNTED_UP_TO
from duly.surfaces.cli.deliveries.filters import (
    CANCEL_CRITERIA,
    CRITERIA,
    CancelCriteria,
    DeliveryCriteria,
)
from duly.surfaces.cli.terminal.bulk import WHICH, Which, run_bulk, store_flags
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.ids import Id, whole_id
from duly.surfaces.cli.terminal.output import answer, cell


@dataclass(frozen=True, kw_only=True)
class Move:
    """An operation on all pending deliveries that match."""

    command: str
    verb: str
    question: str
    waiting: bool
    """Whether only those that are due later match."""
    all: Callable[[Backend, dict[str, Any]], AsyncIterator[BulkProgress]]


CANCEL = Move(
    command="cancel",
    verb="cancelled",
    question="Cancel them?",
    waiting=False,
    all=lambda app, wanted: app.deliveries.cancel_all(**wanted),
)
RETRY = Move(
    command="retry",
    verb="retried",
    question="Make them due now?",
    waiting=True,
    all=lambda app, wanted: app.deliveries.retry_all(**wanted),
)


async def cancel(
    id: Id | None = None,
    /,
    *,
    wanted: CancelCriteria = CANCEL_CRITERIA,
    which: Which = WHICH,
    common: Common = COMMON,
) -> None:
    """Cancel a delivery, or all pending ones that match; one that runs is asked to."""
    if id is None:
        return await _move_all(CANCEL, wanted, which, common)
    _refuse_filters(wanted, which)
    async with backend(common) as app:
        whole = await whole_id(app, id)
        before = await app.deliveries.get(whole)
        delivery = await app.deliveries.cancel(whole)
    return answer(common.json, delivery, lambda: f"{delivery.id} {_cancelled(before, delivery)}")


def _cancelled(before: Delivery, delivery: Delivery) -> str:
    if before.state is State.CANCELLED:
        return "was cancelled already"
    if delivery.cancel_asked_at is None:
        return delivery.state
    since = cell(delivery.cancel_asked_at)
    return f"runs, and was asked to cancel at {since}; it ends when its handler obeys"


async def retry(
    id: Id | None = None,
    /,
    *,
    wanted: DeliveryCriteria = CRITERIA,
    which: Which = WHICH,
    common: Common = COMMON,
) -> None:
    """Retry a dead letter or a waiting delivery now, or all waiting ones that match.

    For all dead letters that match, use `duly dead retry`.
    """
    if id is None:
        return await _move_all(RETRY, wanted, which, common)
    _refuse_filters(wanted, which)
    async with backend(common) as app:
        delivery = await app.deliveries.retry(await whole_id(app, id))
    return answer(common.json, delivery, lambda: f"{delivery.id} {delivery.state}")


def _refuse_filters(wanted: DeliveryCriteria, which: Which) -> None:
    if wanted != type(wanted)() or which.everything or which.dry_run:
        raise InvalidInput("id", "give an id or a filter, not both")


async def _move_all(move: Move, wanted: DeliveryCriteria, which: Which, common: Common) -> None:
    if wanted == type(wanted)() and not which.everything:
        raise InvalidInput("filter", "give an id, a filter, or --all for all pending deliveries")
    async with backend(common) as app:
        result = await _moved(app, move, wanted, which, common)
    matching = _counted(result.matching, wanted)
    asked = "asked to cancel" if _state(wanted) is State.PROCESSING else move.verb
    moved = f"{result.moved} {asked}"
    answer(common.json, result, lambda: matching if which.dry_run else moved)


async def _moved(
    app: Backend, move: Move, wanted: DeliveryCriteria, which: Which, common: Common
) -> BulkResult:
    now = app.clock.now()
    given = wanted.checked(now)
    matching = await app.deliveries.count(waiting=move.waiting, **given)
    if not which.should_run(matching, f"{_counted(matching, wanted)} match.\n{move.question}"):
        return BulkResult(matching=matching, finished=which.dry_run or not matching)
    command = ["deliveries", move.command, *wanted.flags(now)]
    command += [*(["--all"] if which.everything else []), *store_flags(common)]
    return await run_bulk("moving", matching, move.all(app, given), command)


def _state(wanted: DeliveryCriteria) -> State:
    given = wanted.state if isinstance(wanted, CancelCriteria) else None
    return State.PENDING if given is None else checked_state(given)


def _counted(matching: int, wanted: DeliveryCriteria) -> str:
    more = " or more" if matching >= COUNTED_UP_TO else ""
    return f"{matching}{more} {_state(wanted)} deliveries"
