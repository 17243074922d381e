"""The steps of one attempt: found if an earlier one did them, recorded at once or with the outcome.

A step that was done is not lost with its recording: until that is known to have succeeded it
travels with the outcome of the attempt too, and adding it twice adds it once.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Protocol

import msgspec

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.steps import MOST_STEPS
from duly.errors import Conflict, InvalidInput, LeaseLost
from duly.ports import Steps
from duly.records.attempt import Step


class Attempting(Protocol):
    """What a notebook asks of its attempt."""

    claimed: Claimed

    @property
    def is_in_transaction(self) -> bool:
        """Whether the handler's transaction is open."""

    @property
    def turn(self) -> asyncio.Lock:
        """Held by whoever begins a transaction, or writes beside it."""

    def now(self) -> datetime:
        """The present by the store's clock."""

    def refuse_when_over(self) -> None:
        """Conflict once the attempt has its outcome."""


class StepLog:
    """What a handler's steps are kept in while it runs."""

    def __init__(self, store: Steps, attempt: Attempting) -> None:
        self._store = store
        self._attempt = attempt
        self._done: dict[str, Step] | None = None
        self._begun: set[str] = set()
        self._unwritten: dict[str, Step] = {}
        self._enclosed: dict[str, Step] = {}

    async def begin(self, name: str) -> Step | None:
        """The step if it is done already; None when it is to be done now, by the caller."""
        self._attempt.refuse_when_over()
        done = await self._read()
        if name in self._begun:
            raise Conflict(f"step {name!r} is under way in this attempt; give each step its name")
        if name not in done:
            self._refuse_too_many(len(done) + len(self._begun))
            self._begun.add(name)
        return done.get(name)

    async def _read(self) -> dict[str, Step]:
        # Always, be it the first attempt or not: one that was handed back, or retried by an
        # operator, counts from the beginning and yet has steps.
        if self._done is None:
            found = await self._store.load(self._attempt.claimed.id)
            if self._done is None:
                self._done = {each.name: each for each in found}
        return self._done

    def _refuse_too_many(self, steps: int) -> None:
        if steps >= MOST_STEPS:
            raise InvalidInput(
                "step", f"a delivery has at most {MOST_STEPS} steps; split the work into deliveries"
            )

    def give_up(self, name: str) -> None:
        """What was begun was not done."""
        self._begun.discard(name)

    async def record(self, name: str, result: msgspec.Raw, *, late: bool) -> Step:
        """What was begun is done: on the books when this returns, or with the outcome if late."""
        attempt = self._attempt
        step = Step(
            name=name,
            attempt=attempt.claimed.attempt + 1,
            done_at=attempt.now(),
            result_json=result,
        )
        if not attempt.is_in_transaction:
            # Before anything is waited for, so that whoever is cancelled while waiting has done it.
            self._unwritten[name] = step
        try:
            done = await self._read()
            # Taking turns with a transaction that begins: on SQLite this would wait for its end.
            async with attempt.turn:
                done[name] = step = await self._write(step, late)
        finally:
            self._begun.discard(name)
        return step

    async def _write(self, step: Step, late: bool) -> Step:
        self._attempt.refuse_when_over()
        if self._attempt.is_in_transaction:
            self._enclosed[step.name] = step
            self._unwritten.pop(step.name, None)
            return step
        return step if late else await self._write_at_once(step)

    async def _write_at_once(self, step: Step) -> Step:
        try:
            written = await self._store.record(self._attempt.claimed, step)
        except LeaseLost as error:
            raise Conflict(
                f"step {step.name!r} was not recorded: the delivery was taken from this worker, "
                "whose lease ran out"
            ) from error
        del self._unwritten[step.name]
        return written

    def unwritten(self, *, enclosed: bool) -> tuple[Step, ...]:
        """What the outcome has to tell; `enclosed` steps last only if their transaction does."""
        more = self._enclosed.values() if enclosed else ()
        return (*self._unwritten.values(), *more)
