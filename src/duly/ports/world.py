"""The interfaces of clock, randomness, transports and the running attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Outcome
from duly.domain.events import Event
from duly.ports.steps import StepRecorder
from duly.ports.transactions import Message, Transaction
from duly.records.retry_plan import RetryPlan

Emit = Callable[[Event], None]
"""Receives each event."""


class Clock(Protocol):
    """The only source of time; a virtual clock also replaces the database's clock."""

    virtual: bool

    def now(self) -> datetime:
        """The present moment in UTC."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back; for timeouts inside the process."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""


class Chance(Protocol):
    """The only source of randomness and ids."""

    def fraction(self) -> float:
        """A random number from 0 to 1."""

    def bytes(self, many: int) -> bytes:
        """Cryptographically random bytes."""

    def delivery_id(self) -> str:
        """A new delivery id, which sorts after the ones before."""


class Execution(Protocol):
    """A running attempt of a claimed delivery, as a transport sees it."""

    claimed: Claimed
    target: str
    task: asyncio.Task[Any]
    foreign: str | None
    """The delivery's namespace, if it is not the worker's own."""

    started_us: int
    """When it started, by the store's clock, in microseconds since 1970."""

    @property
    def started_at(self) -> datetime:
        """The same as a datetime."""

    @property
    def namespace(self) -> str:
        """The delivery's namespace."""

    @property
    def steps(self) -> StepRecorder:
        """The delivery's steps."""

    def now(self) -> datetime:
        """The present moment by the store's clock."""

    @property
    def is_in_transaction(self) -> bool:
        """Whether its transaction is open."""

    @property
    def is_stopping(self) -> bool:
        """Whether the worker is stopping its running attempts."""

    is_cancelled: bool
    """Whether somebody asked to cancel the delivery."""
    has_obeyed: bool
    """Whether the handler has seen that, and so ends because of it."""

    def report(self, progress: float, note: str | None) -> None:
        """Report how far it is; from any thread."""

    def report_overrun(self) -> None:
        """Report that it runs past its deadline and cannot be stopped."""

    def is_store_away(self, error: BaseException) -> bool:
        """Whether the error means that this store, not another one, is unavailable."""

    async def begin(self) -> Transaction:
        """The transaction in which the completion of the attempt is written."""

    async def receive(self, message_id: str, consumer: str) -> Message:
        """Receive a message in that transaction, new or already handled."""


RUNNING: ContextVar[Execution | None] = ContextVar("running", default=None)
"""The attempt of the current task, and of the tasks that its handler starts."""


class Transport(Protocol):
    """Sends deliveries to their targets."""

    def serves(self) -> Sequence[str]:
        """The names of the targets that this process serves."""

    def reaches(self, target: str) -> bool:
        """Whether this process can reach the target, also if `serves` does not list it."""

    def plan(self, target: str, namespace: str) -> RetryPlan:
        """The retry plan for deliveries to a target that have none of their own."""

    async def attempt(self, execution: Execution) -> Outcome:
        """Make one attempt; a failure of the target is an outcome, never an exception.

        If cancelled, it stops and raises the cancellation.
        """
