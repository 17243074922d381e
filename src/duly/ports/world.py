"""Time, chance, and where deliveries leave the building."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Outcome
from duly.domain.deliveries.retry import RetryPlan
from duly.domain.events import Event
from duly.ports.steps import StepRecorder
from duly.ports.transactions import Message, Transaction

Emit = Callable[[Event], None]
"""Who hears what happened."""


class Clock(Protocol):
    """The one source of time; a virtual one also decides for a database that has its own."""

    virtual: bool

    def now(self) -> datetime:
        """The present moment in UTC."""

    def monotonic(self) -> float:
        """Seconds that never go back; for timeouts inside the process."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class Chance(Protocol):
    """The one source of randomness and of ids."""

    def fraction(self) -> float:
        """A number from 0 to 1."""

    def bytes(self, many: int) -> bytes:
        """Bytes that nobody can guess."""

    def delivery_id(self) -> str:
        """A new delivery id, later than the ones before."""


class Execution(Protocol):
    """One claimed delivery being attempted, as a transport sees it."""

    claimed: Claimed
    target: str
    started_at: datetime
    task: asyncio.Task[Any]
    foreign: str | None
    """The delivery's namespace, if that is not the worker's own."""

    @property
    def namespace(self) -> str:
        """The delivery's namespace."""

    @property
    def steps(self) -> StepRecorder:
        """The delivery's steps."""

    def now(self) -> datetime:
        """The present by the store's clock."""

    @property
    def is_in_transaction(self) -> bool:
        """Whether its transaction is open."""

    @property
    def is_stopping(self) -> bool:
        """Whether the worker ends what it runs."""

    def is_store_away(self, error: BaseException) -> bool:
        """Whether the error says that this very store is away, and nothing else."""

    async def begin(self) -> Transaction:
        """The transaction in which the attempt's completion will be written."""

    async def receive(self, message_id: str, consumer: str) -> Message:
        """Take a message in that transaction, or learn that it was handled."""


RUNNING: ContextVar[Execution | None] = ContextVar("running", default=None)
"""The attempt of the present task, and of whatever tasks its handler starts."""


class Transport(Protocol):
    """Where deliveries leave the building."""

    def serves(self) -> Sequence[str]:
        """The targets that this process can reach."""

    def reaches(self, target: str) -> bool:
        """Whether this process can reach the target, be it among those it serves by name or not."""

    def plan(self, target: str, namespace: str) -> RetryPlan:
        """The retry plan of deliveries to a target of a namespace that carry none."""

    async def attempt(self, execution: Execution) -> Outcome:
        """Make one attempt; what the world did is an outcome, never an exception.

        Cancelled, it stops and lets the cancellation through.
        """
