"""Accepts deliveries: callers that arrive during a commit share the next one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextvars import Context
from datetime import timedelta
from typing import Protocol

from duly.domain.deliveries.delivery import PreparedDelivery
from duly.domain.events import DeliveriesAccepted
from duly.errors import DulyError, InvalidInput, NotFound, StoreUnavailable
from duly.failpoints import hit
from duly.ports import Clock, Emit, Refusal, Store
from duly.records.delivery import Accepted

MOST_IN_ONE_CALL = 500
SOON = timedelta(seconds=60)
"""Deliveries due later need no wake-up: workers poll at least once a minute."""


class Acceptor:
    """Accepts deliveries; returns after the store has committed them.

    A delivery with a key, a stream or a batch may wait for another transaction with the same one.
    Such deliveries are written apart, so that the others never wait for them.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        emit: Emit,
        on_answered: Callable[[], Awaitable[None]],
    ) -> None:
        """`on_answered` is called after each commit, when its callers have their answers."""
        self._store = store
        self._clock = clock
        self._emit = emit
        self.on_answered = on_answered
        self._plain = AcceptBatch(self)
        self._tied = AcceptBatch(self)

    async def accept(self, request: PreparedDelivery) -> Accepted:
        """Store one delivery; Conflict if its key has another target or payload.

        Also if its batch is closed; NotFound if there is no such batch.
        """
        self._store.check_writable()
        return await (self._plain if request.is_alone else self._tied).accept(request)

    def put(self, request: PreparedDelivery, answer: Answer) -> None:
        """Store one delivery with the next batch; `answer` is set after its commit."""
        self._store.check_writable()
        (self._plain if request.is_alone else self._tied).put(request, answer)

    async def accept_all(self, chunks: AsyncIterable[Sequence[PreparedDelivery]]) -> list[Accepted]:
        """Store them all or none."""
        self._store.check_writable()
        await hit("deliver.before")
        asked_at, soon = self._clock.monotonic(), Soon(self._clock)
        accepted = await self._store.deliveries.accept_all(soon.noting(chunks))
        await hit("deliver.after")
        self._report(accepted, asked_at, soon.found)
        return accepted

    async def accept_each(
        self, requests: Sequence[PreparedDelivery | DulyError]
    ) -> list[Accepted | DulyError]:
        """Store each independently, in one call; errors stay in their places."""
        self._store.check_writable()
        found = [each for each in requests if isinstance(each, PreparedDelivery)]
        if all(each.is_new and each.batch is None for each in found):
            # None of them can fail alone, and one transaction is faster.
            given: Iterator[Accepted | Refusal] = iter(await self.accept_all(_one(found)))
        else:
            given = iter(await self.store(found))
        return [
            _answer(next(given)) if isinstance(each, PreparedDelivery) else each
            for each in requests
        ]

    async def store(self, requests: Sequence[PreparedDelivery]) -> list[Accepted | Refusal]:
        """Store each independently."""
        await hit("deliver.before")
        asked_at = self._clock.monotonic()
        answers = await self._store.deliveries.accept(requests)
        await hit("deliver.after")
        soon = Soon(self._clock)
        self._report(answers, asked_at, any(map(soon.includes, requests)))
        return answers

    def _report(
        self, answers: Sequence[Accepted | Refusal], asked_at: float, is_due_soon: bool
    ) -> None:
        new = sum([not each.known for each in answers if isinstance(each, Accepted)])
        seconds = self._clock.monotonic() - asked_at
        self._emit(DeliveriesAccepted(new=new, known=len(answers) - new, seconds=seconds))
        if is_due_soon:
            self._store.wakeups.hint()


def _answer(given: Accepted | Refusal) -> Accepted | DulyError:
    """The same; that there is no such batch is a problem of the item."""
    return InvalidInput("batch", str(given)) if isinstance(given, NotFound) else given


class Soon:
    """Which requests are due so soon that workers should be woken.

    Only `due_at`, a time that the caller gave, is compared with this machine's clock: requests that
    are due at once must wake workers even if this clock is wrong.
    """

    def __init__(self, clock: Clock) -> None:
        self._until = clock.now() + SOON
        self.found = False

    def includes(self, request: PreparedDelivery) -> bool:
        """Whether the request is due soon."""
        if request.due_at is None:
            return (request.after or 0.0) <= SOON.total_seconds()
        return request.due_at <= self._until

    async def noting(
        self, chunks: AsyncIterable[Sequence[PreparedDelivery]]
    ) -> AsyncIterator[Sequence[PreparedDelivery]]:
        """The same chunks; sets `found` if a request in them is due soon."""
        async for chunk in chunks:
            self.found = self.found or any(map(self.includes, chunk))
            yield chunk


async def _one(requests: Sequence[PreparedDelivery]) -> AsyncIterator[Sequence[PreparedDelivery]]:
    if requests:
        yield requests


class Answer(Protocol):
    """What a caller waits for: an asyncio.Future, or a call from another thread."""

    def done(self) -> bool:
        """Whether nobody waits for it any more."""

    def set_result(self, result: Accepted, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


class AcceptBatch:
    """Collects requests during a commit and writes them in the next one."""

    def __init__(self, acceptor: Acceptor) -> None:
        self._acceptor = acceptor
        self._waiting: list[tuple[PreparedDelivery, Answer]] = []
        self._writing: asyncio.Task[None] | None = None

    async def accept(self, request: PreparedDelivery) -> Accepted:
        """Store one delivery, in a batch with those of other callers."""
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self.put(request, answer)
        return await answer

    def put(self, request: PreparedDelivery, answer: Answer) -> None:
        """Add a request to the next batch."""
        self._waiting.append((request, answer))
        if self._writing is None or self._writing.done():
            # The task writes for other callers too, so it must not use this caller's transaction.
            self._writing = asyncio.get_running_loop().create_task(self._write(), context=Context())

    async def _write(self) -> None:
        try:
            while batch := self._waiting[:MOST_IN_ONE_CALL]:
                del self._waiting[: len(batch)]
                await self._write_batch(batch)
        except BaseException as error:
            # The task was cancelled. Those that wait may have no task of their own that was, too.
            _refuse(self._waiting, error)
            self._waiting.clear()
            raise

    async def _write_batch(self, batch: list[tuple[PreparedDelivery, Answer]]) -> None:
        try:
            answers = await self._acceptor.store([each for each, _ in batch])
        except BaseException as error:
            _refuse(batch, error)
            if not isinstance(error, Exception):
                raise
            return
        self._answer(batch, answers)
        with contextlib.suppress(StoreUnavailable):
            await self._acceptor.on_answered()

    def _answer(
        self,
        batch: list[tuple[PreparedDelivery, Answer]],
        answers: list[Accepted | Refusal],
    ) -> None:
        for (_, answer), given in zip(batch, answers, strict=True):
            if answer.done():
                continue
            if isinstance(given, Accepted):
                answer.set_result(given)
            else:
                answer.set_exception(given)


def _refuse(waiting: Sequence[tuple[PreparedDelivery, Answer]], error: BaseException) -> None:
    for _, answer in waiting:
        if not answer.done():
            answer.set_exception(error)
