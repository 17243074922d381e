"""Taking deliveries in: callers that come while one commit is under way share the next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Sequence
from datetime import timedelta

from duly.domain.delivery import Accepted, Request
from duly.domain.errors import Conflict
from duly.engine.execution import RUNNING
from duly.failpoints import hit
from duly.ports import Clock, Store

MOST_IN_ONE_CALL = 500
SOON = timedelta(seconds=60)
"""What is due later than this is found by a poll, the rarest of which come a minute apart."""


class Acceptor:
    """Answers yes only after the store did."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._waiting: list[tuple[Request, asyncio.Future[Accepted]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def accept(self, request: Request) -> Accepted:
        """Store one delivery; Conflict when its key has another target or payload."""
        self._check_writable()
        answer: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, answer))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return await answer

    def _check_writable(self) -> None:
        """Refuse what would wait for the end of the very attempt that waits for it."""
        self._store.check_writable()
        running = RUNNING.get()
        if running is not None and running.blocks(self._store):
            raise Conflict(
                "this handler is in a transaction on SQLite, and nothing else can be written until "
                "it ends; deliver in it with `connection=delivery.transaction`, before its first "
                "statement, or use PostgreSQL"
            )

    async def accept_all(self, chunks: AsyncIterable[Sequence[Request]]) -> list[Accepted]:
        """Store them all or none."""
        self._check_writable()
        await hit("deliver.before")
        accepted = await self._store.deliveries.accept_all(chunks)
        await hit("deliver.after")
        self._hint(accepted)
        return accepted

    async def _write(self) -> None:
        while batch := self._waiting[:MOST_IN_ONE_CALL]:
            del self._waiting[: len(batch)]
            try:
                await hit("deliver.before")
                answers = await self._store.deliveries.accept([each for each, _ in batch])
                await hit("deliver.after")
            except BaseException as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                if not isinstance(error, Exception):
                    raise
                continue
            self._answer(batch, answers)
            self._hint(answers)

    def _hint(self, answers: Sequence[Accepted | Conflict]) -> None:
        soon = self._clock.now() + SOON
        if any(isinstance(each, Accepted) and each.due_at <= soon for each in answers):
            self._store.wakeups.hint()

    def _answer(
        self,
        batch: list[tuple[Request, asyncio.Future[Accepted]]],
        answers: list[Accepted | Conflict],
    ) -> None:
        for (_, answer), given in zip(batch, answers, strict=True):
            if answer.done():
                continue
            if isinstance(given, Conflict):
                answer.set_exception(given)
            else:
                answer.set_result(given)
