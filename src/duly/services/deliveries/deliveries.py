"""Accepted deliveries: read, listed, cancelled and retried."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any, Unpack

import msgspec

from duly.domain import checks
from duly.domain.batches import checked_batch
from duly.domain.deliveries import states
from duly.domain.deliveries.lateness import checked_cursor
from duly.domain.endpoints.endpoint import wanted_target
from duly.domain.streams.policy import checked_stream
from duly.domain.time.durations import seconds_of
from duly.errors import InvalidInput, quoted
from duly.ports import Clock, Filter, Store
from duly.records.attempt import Attempt, HistoryEntry, Step, result_of, tries
from duly.records.dead_letter import BulkProgress
from duly.records.delivery import (
    Delivery,
    DeliveryCounts,
    DeliveryDetail,
    DeliverySort,
    FilterKeywords,
    PageKeywords,
    transitions,
)
from duly.records.page import Page
from duly.records.retry_plan import RetryPlan
from duly.services.deliveries.bulk import PendingMoves
from duly.services.deliveries.counts import Look, counts_of
from duly.services.deliveries.ends import Ends
from duly.services.deliveries.handles import wait_for
from duly.services.deliveries.waiting import Problem, outlook


class Deliveries:
    """The deliveries of one namespace; `actor` is named in the audit trail, None writes no entry.

    `problem` returns why the secrets of an endpoint cannot be read; `plan` is the retry plan of
    webhooks that have none of their own; `look` reads the status of the namespace; `ends` waits
    for deliveries.
    """

    def __init__(
        self,
        store: Store,
        problem: Problem,
        plan: RetryPlan,
        look: Look,
        ends: Ends,
        clock: Clock,
        actor: str | None = None,
    ) -> None:
        self._store = store
        self._ends = ends
        self._clock = clock
        self._look = look
        self._problem = problem
        self._plan = plan
        self._actor = actor
        self._moves = PendingMoves(store, actor)

    async def get(self, id: str) -> Delivery:
        """One delivery, or NotFound."""
        return await self._store.deliveries.get(checks.checked_id(id))

    async def detail(self, id: str, *, wait: float = 0) -> DeliveryDetail:
        """One delivery with its result, attempts, steps, state changes, and what it waits for.

        Unless it has ended, its end is awaited for up to `wait` seconds.
        """
        delivery = await self.get(id)
        if wait and delivery.state not in states.FINISHED:
            await self._ends.wait(delivery.id, checks.checked_wait("wait", wait))
            delivery = await self.get(id)
        history = await self.history(id)
        attempts = tries(history)
        return DeliveryDetail(
            **msgspec.structs.asdict(delivery),
            **await outlook(self._store, self._problem, delivery, self._plan),
            result=result_of(attempts),
            attempts=attempts,
            steps=await self._store.steps.load(delivery.id),
            transitions=transitions(delivery, history),
        )

    async def list(self, **wanted: Unpack[PageKeywords]) -> Sequence[Delivery]:
        """Deliveries, newest first.

        A target is a handler's name, `endpoint:` and a name, or a URL, which means its host. With
        `sort="lateness"` the most late come first; those that are not due yet are left out.
        """
        filter, found = checked(wanted), builtins.list[Delivery]()
        while True:
            more, next = await self._store.deliveries.page(filter)
            found += more
            left = filter.limit - len(more)
            if next is None or left <= 0:
                return found
            filter = msgspec.structs.replace(filter, before=next, limit=left)

    async def page(self, **wanted: Unpack[PageKeywords]) -> Page[Delivery]:
        """Like `list`, in time that does not grow with the ledger; continue from its `next`.

        A page may have fewer than `limit` although more follow.
        """
        return Page(*await self._store.deliveries.page(checked(wanted)))

    async def attempts(self, id: str) -> Sequence[Attempt]:
        """The attempts of a delivery, oldest first."""
        return tries(await self.history(id))

    async def history(self, id: str) -> Sequence[HistoryEntry]:
        """Everything that happened to a delivery, attempts and other changes, oldest first."""
        return await self._store.deliveries.history(checks.checked_id(id))

    async def steps(self, id: str) -> Sequence[Step]:
        """The completed steps of a delivery, in their order."""
        return await self._store.steps.load((await self.get(id)).id)

    async def wait(self, id: str, *, timeout: float | timedelta | None = None) -> DeliveryDetail:
        """The delivery when it has completed.

        DeliveryFailed if it is a dead letter or was cancelled, NotEnded after `timeout` seconds;
        without one it waits for as long as it takes.
        """
        return await wait_for(self, self._clock, id, timeout)

    async def cancel(self, id: str) -> Delivery:
        """Cancel a pending delivery, or ask for it if it runs; safe to repeat.

        Its worker cancels a running one within a second or two. It ends as cancelled if its handler
        obeys, and as completed if it completes first; `cancel_asked_at` tells since when it was
        asked. Conflict if it has ended otherwise.
        """
        return await self._store.deliveries.cancel(checks.checked_id(id), self._actor)

    async def retry(self, id: str) -> Delivery:
        """Retry a dead letter with all its attempts, or a waiting delivery now."""
        delivery = await self._store.deliveries.retry(checks.checked_id(id), self._actor)
        self._store.wakeups.hint()
        return delivery

    async def count(self, *, waiting: bool = False, **wanted: Unpack[FilterKeywords]) -> int:
        """How many pending deliveries match, or running ones if that is the state, up to 10,000.

        With `waiting`, only those that are due later, as `retry_all` would retry.
        """
        return await self._moves.count(checked(wanted), waiting=waiting)

    async def counts(self, **wanted: Unpack[FilterKeywords]) -> DeliveryCounts:
        """How many deliveries match, by state.

        At most the newest 10,000 deliveries are examined; without a filter, all that are pending,
        processing or dead are counted, up to 10,000 of each.
        """
        return await counts_of(self._store, self._look, checked(wanted))

    def cancel_all(self, **wanted: Unpack[FilterKeywords]) -> AsyncIterator[BulkProgress]:
        """Cancel all pending deliveries that match; yields the progress.

        Those that run meanwhile are skipped; with `state="processing"` those that run are asked to
        cancel, and no others.
        """
        return self._moves.cancel(checked(wanted))

    def retry_all(self, **wanted: Unpack[FilterKeywords]) -> AsyncIterator[BulkProgress]:
        """Make all pending deliveries that match, and are due later, due now; yields progress."""
        return self._moves.retry(checked(wanted))


def checked(wanted: PageKeywords | FilterKeywords) -> Filter:
    """The filter with each of its fields checked."""
    given: dict[str, Any] = {name: each for name, each in wanted.items() if each is not None}
    fields = FIELDS | {"before": checked_cursor} if "sort" in given else FIELDS
    return Filter(**{name: fields[name](value) for name, value in given.items()})


def _text(field: str, limit: int = checks.KEY_LIMIT) -> Callable[[object], str]:
    return lambda value: checks.checked_text(field, value, limit)


def _sort(value: str) -> DeliverySort:
    try:
        return DeliverySort(value)
    except ValueError:
        known = ", ".join(DeliverySort)
        problem = f"{quoted(value)} is none of {known}; without it, the newest come first"
        raise InvalidInput("sort", problem) from None


FIELDS: dict[str, Callable[[Any], Any]] = {
    "id": checks.checked_beginning,
    "state": states.checked_state,
    "target": wanted_target,
    **{name: _text(name) for name in ("tag", "key", "schedule", "reason")},
    "stream": checked_stream,
    "batch": checked_batch,
    "text": _text("text", 1000),
    "since": lambda value: checks.checked_moment("since", value),
    "until": lambda value: checks.checked_moment("until", value),
    "late_over": lambda value: seconds_of("late_over", value),
    "sort": _sort,
    "before": checks.checked_id,
    "limit": checks.checked_limit,
    "payloads": bool,
}
