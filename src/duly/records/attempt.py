"""Attempts and steps of a delivery, as its history shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from duly.records.state import State


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt or other state change of a delivery, as the history keeps it."""

    delivery: str
    attempt: int
    outcome: str
    before: State
    after: State
    worker: int | None
    token: int | None
    started_at: datetime | None
    finished_at: datetime
    next_at: datetime | None = None
    reason: str | None = None
    error: str | None = None
    answer: Any = None
    traceback: str | None = None
    """The traceback in the user's code."""

    @property
    def is_crash(self) -> bool:
        """Whether the worker died during it: only the worker would have reported the start."""
        ends = ("reclaimed", "retry", "dead")
        return self.started_at is None and self.token is not None and self.outcome in ends


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
