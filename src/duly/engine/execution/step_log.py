"""The steps of one attempt: read if an earlier attempt did them, recorded when they are done.

Until a step is known to be recorded, it is also written with the outcome of the attempt. Adding a
step twice adds it once.
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
    """What a step log needs of its attempt."""

    claimed: Claimed

    @property
    def is_in_transaction(self) -> bool:
        """Whether the handler's transaction is open."""

    @property
    def turn(self) -> asyncio.Lock:
        """Held while a transaction begins, or while something is written beside it."""

    def now(self) -> datetime:
        """The current time by the store's clock."""

    def refuse_when_over(self) -> None:
        """Conflict if the attempt already has its outcome."""


class StepLog:
    """The steps of a running handler."""

    def __init__(self, store: Steps, attempt: Attempting) -> None:
        self._store = store
        self._attempt = attempt
        self._done: dict[str, Step] | None = None
        self._begun: set[str] = set()
        self._unwritten: dict[str, Step] = {}
        self._enclosed: dict[str, Step] = {}

    async def begin(self, name: str) -> Step | None:
        """The step if it is done already; None if the caller has to do it now."""
        self._attempt.refuse_when_over()
        done = await self._read()
        if name in self._begun:
            raise Conflict(f"step {name!r} already runs; give each step its own name")
        if name not in done:
            self._refuse_too_many(len(done) + len(self._begun))
            self._begun.add(name)
        return done.get(name)

    async def _read(self) -> dict[str, Step]:
        # Read for the first attempt too: after a hand-back or an operator's retry, attempts are
        # counted from the beginning but steps exist.
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
        """Mark a begun step as not done."""
        self._begun.discard(name)

    async def record(self, name: str, result: msgspec.Raw, *, late: bool) -> Step:
        """Mark a begun step as done; it is stored on return or, if `late`, with the outcome."""
        attempt = self._attempt
        step = Step(
            name=name,
            attempt=attempt.claimed.attempt + 1,
            done_at=attempt.now(),
            result_json=result,
        )
        if not attempt.is_in_transaction:
            # Before any await: the step stays done if this is cancelled.
            self._unwritten[name] = step
        try:
            done = await self._read()
            # Not while a transaction begins: on SQLite this would wait for its end.
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
        """Steps to write with the outcome; `enclosed` adds those of the handler's transaction."""
        more = self._enclosed.values() if enclosed else ()
        return (*self._unwritten.values(), *more)
