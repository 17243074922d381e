"""Attempts, steps and state changes of a delivery."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from duly.records.state import State


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a delivery, and its outcome."""

    attempt: int
    outcome: str
    worker: int | None
    started_at: datetime | None
    finished_at: datetime
    next_at: datetime | None = None
    reason: str | None = None
    error: str | None = None
    exception: Annotated[str | None, Meta(description="the class of a handler's exception")] = None
    traceback: Annotated[str | None, Meta(description="where in a handler's code it failed")] = None
    answer: Annotated[Any, Meta(description="what the receiver of a webhook answered")] = None
    result: Annotated[Any, Meta(description="what the handler returned")] = None


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """A change of state, and what made it."""

    at: datetime
    before: State | None = None
    after: State
    by: str
    attempt: int = 0
    worker: int | None = None
    reason: Annotated[
        str | None, Meta(description="what made it, if no attempt did: operator, recovery, ...")
    ] = None
    note: Annotated[str | None, Meta(description="why, in words; of attempts see error")] = None


class HistoryEntry(Attempt, frozen=True, kw_only=True):
    """An attempt or other state change of a delivery, with all that the store keeps of it."""

    delivery: str
    before: State
    after: State
    token: int | None

    @property
    def is_crash(self) -> bool:
        """Whether the worker died during it: only the worker would have reported the start."""
        ends = ("reclaimed", "retry", "dead", "cancelled")
        return self.started_at is None and self.token is not None and self.outcome in ends

    @property
    def is_attempt(self) -> bool:
        """Whether it is a try, also one that a dead worker cut short."""
        return self.started_at is not None or self.is_crash

    @property
    def as_attempt(self) -> Attempt:
        """What the list of attempts shows of it."""
        return Attempt(**{name: getattr(self, name) for name in Attempt.__struct_fields__})

    @property
    def transition(self) -> Transition:
        """The change of state that it was."""
        return Transition(
            at=self.finished_at,
            before=self.before,
            after=self.after,
            by=self.outcome,
            attempt=self.attempt,
            worker=self.worker,
            reason=None if self.is_attempt else self.reason,
            note=None if self.is_attempt else self.error,
        )


def tries(history: Iterable[HistoryEntry]) -> list[Attempt]:
    """The attempts in a history, also those that a dead worker cut short."""
    return [each.as_attempt for each in history if each.is_attempt]


def result_of(attempts: Sequence[Attempt]) -> Any:
    """What the handler returned in the attempt that completed; None if it returned nothing.

    That attempt may not be the last: clocks differ, and so the moments of workers.
    """
    completed = (each.result for each in reversed(attempts) if each.outcome == "completed")
    return next(completed, None)


NOTHING = msgspec.Raw(b"null")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A completed step; it never changes."""

    name: str
    attempt: int
    done_at: datetime
    result_json: msgspec.Raw = msgspec.field(name="result", default=NOTHING)
    """The result as JSON."""

    @property
    def result(self) -> Any:
        """The result, decoded."""
        return msgspec.json.decode(self.result_json)
