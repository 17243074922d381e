"""Dead letters: listed, grouped, retried, edited, discarded, held and given up.

Bulk operations move them in batches. To continue an interrupted one, repeat it with the same filter
and the `until` of its progress: each dead letter is moved once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from duly.domain import checks
from duly.domain.dead_letters import (
    ALL,
    LEAST,
    LOOKED_AT,
    checked,
    checked_note,
    narrowed,
    place,
    placed,
    why_suspected,
)
from duly.domain.deliveries import payloads, retry
from duly.domain.endpoints.endpoint import CHECKS, endpoint, endpoint_name
from duly.ports import (
    BulkCursor,
    Clock,
    DeadLetterMove,
    Discard,
    GiveUp,
    Hold,
    Release,
    Retry,
    Store,
)
from duly.records.dead_letter import (
    BulkProgress,
    DeadLetterCriteria,
    DeadLetterFilter,
    DeadLetterGroup,
)
from duly.records.delivery import Delivery, ExplainedDelivery, explained, listed
from duly.records.page import Page
from duly.records.recovery import WhichLetters
from duly.records.retry_plan import RetryPlan
from duly.services.interruption import ended

BATCH = 1000
OPEN = WhichLetters.OPEN
SUSPECTS = 10_000
"""The most failed deliveries among which poison candidates are searched."""


class DeadLetters:
    """The dead letters of one app; `actor` is named in the audit trail."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        plan: Callable[[str], RetryPlan],
        payload_limit: int,
        actor: str = "python",
    ) -> None:
        self._store = store
        self._clock = clock
        self._plan = plan
        self._payload_limit = payload_limit
        self.actor = actor

    async def list(
        self,
        filter: DeadLetterCriteria = ALL,
        *,
        before: str | None = None,
        limit: int = 50,
        payloads: bool = True,
    ) -> Sequence[Delivery]:
        """Dead letters, latest first; `before` is `place` of the last one of the previous page."""
        start = None if before is None else placed(before)
        limit = checks.checked_limit(limit)
        found = await self._store.dead_letters.page(checked(filter), start, limit)
        return listed(found, payloads=payloads)

    async def page(
        self,
        filter: DeadLetterCriteria = ALL,
        *,
        before: str | None = None,
        limit: int = 50,
        payloads: bool = True,
    ) -> Page[Delivery]:
        """A page in bounded time; `before` is the `next` of the previous page.

        It may be short or empty although more follow.
        """
        start, wanted = None if before is None else placed(before), checked(filter)
        lowest = await self._store.dead_letters.floor(start, LOOKED_AT)
        if lowest is not None and (wanted.since is None or wanted.since < lowest):
            wanted = msgspec.structs.replace(wanted, since=lowest)
        else:
            lowest = None
        limit = checks.checked_limit(limit)
        found = await self._store.dead_letters.page(wanted, start, limit)
        shown = listed(found, payloads=payloads)
        if len(found) == limit:
            return Page(shown, place(found[-1]))
        # The page covered all that died at that moment.
        return Page(shown, None if lowest is None else f"{lowest.isoformat()}/{LEAST}")

    async def groups(
        self, filter: DeadLetterCriteria = ALL, *, limit: int = 50
    ) -> Sequence[DeadLetterGroup]:
        """Dead letters by fingerprint, the largest group first.

        A filter by reason, fingerprint, target and `since` counts all dead letters; any other one
        counts only among the latest 5,000.
        """
        limit = checks.checked_limit(limit)
        return await self._store.dead_letters.groups(checked(filter), limit)

    async def count(self, filter: DeadLetterCriteria = ALL) -> int:
        """How many dead letters match."""
        return await self._store.dead_letters.count(checked(filter))

    async def retry(self, id: str, *, reset_attempts: bool = True) -> Delivery:
        """Retry one, at its position in its stream; Conflict if it is not dead.

        It gets all its attempts again. Without `reset_attempts` it gets only those it has left,
        and at least one.
        """
        moved = await self._store.dead_letters.retry(
            checks.checked_id(id), self.actor, reset=reset_attempts
        )
        self._store.wakeups.hint()
        return moved

    async def edit(self, id: str, payload: Any) -> Delivery:
        """Replace the payload of one and retry it with all its attempts.

        Its history keeps the old payload. Conflict if it is not dead.
        """
        data = payloads.payload_bytes(payload, self._payload_limit)
        moved = await self._store.dead_letters.edit(checks.checked_id(id), data, self.actor)
        self._store.wakeups.hint()
        return moved

    async def discard(self, id: str, note: str) -> Delivery:
        """Cancel one; `note` is the reason. A stream that it blocked continues."""
        why = checked_note(note)
        moved = await self._store.dead_letters.discard(checks.checked_id(id), why, self.actor)
        self._store.wakeups.hint()
        return moved

    async def hold(self, id: str, note: str) -> Delivery:
        """Hold one: no policy and no bulk retry touches it until it is released.

        `note` is the reason. It can still be retried by its id.
        """
        return await self._dispose(id, Hold(checked_note(note)))

    async def release(self, id: str) -> Delivery:
        """Release one that is held; recovery policies apply to it again from the start."""
        return await self._dispose(id, Release())

    async def give_up(self, id: str, note: str) -> Delivery:
        """Give one up for good: it stays a dead letter, and nothing retries it any more.

        `note` is the reason. A stream that it blocked continues.
        """
        return await self._dispose(id, GiveUp(checked_note(note)))

    async def _dispose(self, id: str, move: Hold | Release | GiveUp) -> Delivery:
        moved = await self._store.dead_letters.dispose(checks.checked_id(id), move, self.actor)
        self._store.wakeups.hint()
        return moved

    async def retry_all(
        self,
        filter: DeadLetterFilter = ALL,
        *,
        rate: float | None = None,
        reset_attempts: bool = True,
    ) -> AsyncIterator[BulkProgress]:
        """Retry all that match, at most `rate` a second; yields the progress.

        In each stream the earliest is first. Those that die again meanwhile stay dead. Held ones
        are retried only if the filter names their disposition or their ids.
        """
        CHECKS["rate"](rate)
        move = Retry(reset_attempts, 0.0 if rate is None else 1 / rate)
        detail = {"reset_attempts": reset_attempts, "rate": rate}
        async for progress in self._move_all(narrowed(filter, OPEN), move, "retried", detail):
            yield progress

    async def hold_all(self, filter: DeadLetterFilter, note: str) -> AsyncIterator[BulkProgress]:
        """Hold all that match and are not given up; `note` is the reason. Yields the progress."""
        move = Hold(checked_note(note))
        async for progress in self._move_all(narrowed(filter, OPEN), move, "held", {"note": note}):
            yield progress

    async def release_all(self, filter: DeadLetterFilter = ALL) -> AsyncIterator[BulkProgress]:
        """Release all held ones that match; yields the progress."""
        held = narrowed(filter, WhichLetters.HELD)
        async for progress in self._move_all(held, Release(), "released", {}):
            yield progress

    async def give_up_all(self, filter: DeadLetterFilter, note: str) -> AsyncIterator[BulkProgress]:
        """Give up all that match for good; `note` is the reason. Yields the progress."""
        move = GiveUp(checked_note(note))
        async for progress in self._move_all(filter, move, "given_up", {"note": note}):
            yield progress

    async def discard_all(self, filter: DeadLetterFilter, note: str) -> AsyncIterator[BulkProgress]:
        """Cancel all that match; `note` is the reason. Yields the progress."""
        discard = Discard(checked_note(note))
        async for progress in self._move_all(filter, discard, "discarded", {"note": note}):
            yield progress

    async def _move_all(
        self, filter: DeadLetterFilter, move: DeadLetterMove, action: str, detail: dict[str, Any]
    ) -> AsyncIterator[BulkProgress]:
        wanted, until = await self._until_now(checked(filter))
        total, done = await self._store.dead_letters.count(wanted), 0
        await self._store.dead_letters.begin(
            action, wanted, self.actor, {**detail, "deliveries": total}
        )
        pace = _Pace(self._clock, move.spread if isinstance(move, Retry) else 0.0)
        place: BulkCursor | None = BulkCursor()
        while place is not None:
            batch = self._store.dead_letters.move(wanted, move, place, pace.batch)
            (moved, place), cancelled = await ended(batch)
            if moved:
                done += moved
                self._store.wakeups.hint()
                yield BulkProgress(done=done, total=total, until=until)
            if cancelled is not None:
                raise cancelled
            if moved:
                await pace.keep(done)

    async def _until_now(self, filter: DeadLetterFilter) -> tuple[DeadLetterFilter, datetime]:
        # Otherwise those that die again meanwhile would be moved for ever.
        now, _ = await self._store.plans.clock()
        until = now if filter.until is None else min(filter.until, now)
        return msgspec.structs.replace(filter, until=until), until

    async def poison_candidates(
        self,
        *,
        limit: int = 50,
        last_attempts: bool = False,
        plan: Callable[[str], RetryPlan] | None = None,
        payloads: bool = True,
    ) -> Sequence[ExplainedDelivery]:
        """Unfinished deliveries whose workers died while they held them, the worst first.

        With `last_attempts` also those whose next attempt is their last. `plan` returns the retry
        plan of a target; by default, handlers that run in other processes get the default plan.
        """
        limit = checks.checked_limit(limit)
        suspects = await self._store.dead_letters.suspects(SUSPECTS, failed=last_attempts)
        plans = await self._plans({each.target for each in suspects}, plan or self._plan)
        reasons = {each.id: why_suspected(each, plans[each.target]) for each in suspects}
        found = [(id, why) for id, why in reasons.items() if why is not None][:limit]
        suspected = [explained(await self._store.deliveries.get(id), why) for id, why in found]
        return listed(suspected, payloads=payloads)

    async def _plans(
        self, targets: Collection[str], plan: Callable[[str], RetryPlan]
    ) -> dict[str, RetryPlan]:
        plans = {each: plan(each) for each in targets}
        names = {name for each in targets if (name := endpoint_name(each)) is not None}
        for each in await self._store.endpoints.some(names) if names else ():
            if each.details.retry is not None:
                plans[endpoint(each.name).target] = retry.decode(each.details.retry)
        return plans


class _Pace:
    """Limits the average rate since the beginning; `spread` is the seconds between two."""

    def __init__(self, clock: Clock, spread: float) -> None:
        self._clock = clock
        self._spread = spread
        self._began = clock.monotonic()
        self.batch = max(1, min(BATCH, int(1 / spread))) if spread else BATCH

    async def keep(self, done: int) -> None:
        """Wait until the next batch may start."""
        ahead = self._began + done * self._spread - self._clock.monotonic()
        if ahead > 0:
            await self._clock.sleep(ahead)
