"""Finishes batches: when all members of a closed batch have ended, its completion is stored.

Accepting or settling a member writes nothing about its batch. This loop reads the members in
slices, in the order of their ids. All before the first slice with a pending member have ended, and
stay so, except dead letters that somebody retries or discards. So each member is read about once,
and the last step compares the number of dead letters with the one that was counted.

Any number of processes may do this at once. Finishing is one transaction that locks the batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from duly.domain.batches import MemberCounts, MemberSlice
from duly.domain.events import BatchFinished, BatchUnsent
from duly.engine.loops import Pause, contained
from duly.ports import Chance, Clock, Emit, Finish, Store, UnfinishedBatch

BATCHES = 100
"""How many batches one tick looks at."""
FIRST_SLICE, LONGEST_SLICE = 500, 20_000
SOONEST, LATEST = 0.5, 5.0
"""Seconds until a batch is looked at again: fewer if its members progress."""
SHARE = 9
"""How many times as long as a tick took, the loop pauses at least."""
COUNT_SHARE = 20
"""The same for a count of all members, which only shows the progress of a large batch."""
COUNTED_EVERY = 2.0
LARGE = 1000
"""Smaller batches are counted when they are read."""
CANCELLED_AT_ONCE, CANCEL_ROUNDS = 1000, 10
NOWHERE = ("", "")


class BatchSignal:
    """Wakes the finisher of this process when a batch was closed here."""

    def __init__(self) -> None:
        self.listener: Callable[[], object] = _do_nothing

    def hint(self) -> None:
        """A batch was closed."""
        self.listener()


def _do_nothing() -> None:
    """Without a finisher, that of another process finds it."""


@dataclass(slots=True)
class Watched:
    """What this process knows of a batch: members up to `after` have ended, counted in `ended`."""

    after: str | None = None
    ended: MemberCounts = field(default_factory=MemberCounts)
    seen: MemberCounts | None = None
    """The counts of the slice that stopped the last look."""
    interval: float = SOONEST
    look_at: float = 0.0
    count_at: float = 0.0

    def reset(self) -> None:
        """Begin again: a dead letter was retried or discarded."""
        self.after, self.ended, self.seen = None, MemberCounts(), None


class BatchFinisher:
    """Finishes the batches of all namespaces that this process works for."""

    name = "batch finisher"

    def __init__(self, store: Store, clock: Clock, chance: Chance, emit: Emit) -> None:
        self.wake = asyncio.Event()
        self._store = store
        self._clock = clock
        self._chance = chance
        self._emit = emit
        self._watched: dict[str, Watched] = {}
        self._after = NOWHERE
        self._seen: set[str] = set()
        """The batches that were found since the last beginning."""

    async def tick(self) -> Pause:
        """Look at the batches whose time has come; waits until the next one's."""
        began = self._clock.monotonic()
        found = await self._found()
        for batch in found:
            watched = self._watched.setdefault(batch.id, Watched())
            if watched.look_at <= self._clock.monotonic():
                doing = contained(self.name, self._foreign(batch), self._emit, self._look(batch))
                if isinstance(await doing, Pause):
                    watched.look_at = self._clock.monotonic() + LATEST
        return self._pause(self._clock.monotonic() - began)

    def _pause(self, took: float) -> Pause:
        now = self._clock.monotonic()
        due = min((each.look_at for each in self._watched.values()), default=now + LATEST)
        if self._after != NOWHERE:
            due = now  # there are more
        least = max(SHARE * took, 0.05) if self._watched else LATEST
        return Pause(max(due - now, least))

    async def catch_up(self) -> bool:
        """Look at all batches at once; whether one was finished."""
        finished, self._after = 0, NOWHERE
        while found := await self._found():
            for batch in found:
                self._watched.setdefault(batch.id, Watched())
                finished += await self._look(batch)
            if self._after == NOWHERE:
                break
        return finished > 0

    def hurry(self) -> None:
        """A batch was closed: look at it at once."""
        for each in self._watched.values():
            each.look_at, each.interval = 0.0, SOONEST
        self.wake.set()

    async def _found(self) -> list[UnfinishedBatch]:
        """The next unfinished batches; after the last one, the first come again."""
        if self._after == NOWHERE:
            self._seen = set()
        found = list(await self._store.batches.unfinished(self._after, BATCHES))
        self._seen.update(each.id for each in found)
        if len(found) == BATCHES:
            self._after = (found[-1].namespace, found[-1].id)
        else:
            # These were all of them: forget those that are finished.
            self._after = NOWHERE
            self._watched = {id: self._watched[id] for id in self._seen & self._watched.keys()}
        return found

    async def _look(self, batch: UnfinishedBatch) -> bool:
        """Finish the batch if all its members have ended; whether this call did."""
        watched, before = self._watched[batch.id], self._clock.monotonic()
        found = None
        if batch.is_closed:
            found = await self._advance(batch, watched)
            if found.counts.pending and batch.is_cancelled:
                await self._cancel_waiting(batch, watched)
                found = await self._advance(batch, watched)
            if not found.counts.pending and await self._finish(batch, watched, found):
                return True
        self._rest(watched, found)
        await self._count(batch, watched, found, before)
        return False

    async def _advance(self, batch: UnfinishedBatch, watched: Watched) -> MemberSlice:
        """Read on to the first slice with a pending member, or to the last one."""
        size = FIRST_SLICE
        while True:
            found = await self._store.batches.survey(batch.id, watched.after, size)
            if found.counts.pending or found.last is None:
                return found
            watched.ended += found.counts
            watched.after, size = found.last, min(4 * size, LONGEST_SLICE)

    async def _finish(self, batch: UnfinishedBatch, watched: Watched, last: MemberSlice) -> bool:
        """Finish a batch of which all members have ended; whether this call did."""
        result = await self._try(batch, watched, last)
        if result is Finish.CHANGED:
            watched.reset()
            last = await self._advance(batch, watched)
            if not last.counts.pending:
                result = await self._try(batch, watched, last)
        return result in (Finish.DONE, Finish.UNSENT)

    async def _try(self, batch: UnfinishedBatch, watched: Watched, last: MemberSlice) -> Finish:
        batches, counts = self._store.within(batch.namespace).batches, watched.ended + last.counts
        result = await batches.finish(batch.id, counts, self._chance.delivery_id())
        if result in (Finish.DONE, Finish.UNSENT):
            del self._watched[batch.id]
            self._report(batch, counts, result)
        return result

    def _report(self, batch: UnfinishedBatch, counts: MemberCounts, result: Finish) -> None:
        if result is Finish.DONE and not batch.is_cancelled:
            self._store.wakeups.hint()
        self._emit(
            BatchFinished(
                batch=batch.id,
                members=counts.members,
                completed=counts.completed,
                dead=counts.dead,
                cancelled=counts.cancelled,
                namespace=self._foreign(batch),
            )
        )
        if result is Finish.UNSENT:
            self._emit(BatchUnsent(batch=batch.id, namespace=self._foreign(batch)))

    def _rest(self, watched: Watched, found: MemberSlice | None) -> None:
        """Look again soon if members progress, and later if they do not."""
        now = None if found is None else found.counts
        is_still = now == watched.seen
        watched.interval = min(2 * watched.interval, LATEST) if is_still else SOONEST
        watched.seen = now
        watched.look_at = self._clock.monotonic() + watched.interval

    async def _count(
        self, batch: UnfinishedBatch, watched: Watched, found: MemberSlice | None, before: float
    ) -> None:
        """Count all members of a large batch now and then, to show its progress."""
        recently = batch.counted_ago is not None and batch.counted_ago < COUNTED_EVERY
        if watched.count_at > self._clock.monotonic() or recently:
            return
        total = watched.ended
        found = found or await self._store.batches.survey(batch.id, watched.after, FIRST_SLICE)
        while True:
            total += found.counts
            if found.last is None:
                break
            found = await self._store.batches.survey(batch.id, found.last, LONGEST_SLICE)
        if total.members > LARGE:
            await self._store.batches.keep_counts(batch.id, total)
        now = self._clock.monotonic()
        watched.count_at = now + max(COUNTED_EVERY, COUNT_SHARE * (now - before))

    async def _cancel_waiting(self, batch: UnfinishedBatch, watched: Watched) -> None:
        """Cancel members that wait: who cancelled the batch was interrupted, or one has failed."""
        batches, after = self._store.within(batch.namespace).batches, watched.after
        for _ in range(CANCEL_ROUNDS):
            _, after = await batches.cancel_waiting(batch.id, after, CANCELLED_AT_ONCE)
            if after is None:
                return

    def _foreign(self, batch: UnfinishedBatch) -> str | None:
        return None if batch.namespace == self._store.namespace else batch.namespace
