"""Stored steps: read for an attempt, added at once or with its outcome, never changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from duly.domain.deliveries.delivery import Claimed, Lane
from duly.domain.deliveries.outcomes import Settlement
from duly.errors import LeaseLost
from duly.failpoints import hit
from duly.records.attempt import NOTHING, Step
from duly.stores.database import Database, Row, Session


class Written(msgspec.Struct, frozen=True):
    """A step to write, with the lane and token that must still be held."""

    lane: Lane
    token: int
    delivery: str
    step: Step


class Steps:
    """The steps of all deliveries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, delivery: str) -> list[Step]:
        """The steps of one delivery, in the order in which they were done."""
        rows = await self._database.fetch_named("steps.load", delivery=delivery)
        return [step_of(**row) for row in rows]

    async def record(self, claimed: Claimed, step: Step) -> Step:
        """Add a step at once; returns the stored one, which is the first with its name."""
        await hit("step.before")
        rows = await _record(
            self._database, [Written(claimed.lane, claimed.token, claimed.id, step)]
        )
        if not rows:
            raise LeaseLost(f"the lane of delivery {claimed.id} is no longer ours")
        await hit("step.after")
        return step_of(*rows[0])


async def record_with(session: Session, settlements: Sequence[Settlement]) -> None:
    """Add the steps of settlements whose lanes are still held; call it before settling."""
    written = [
        Written(each.lane, each.token, each.delivery, step)
        for each in settlements
        for step in each.steps
    ]
    if written:
        await _record(session, written)


async def _record(session: Session, written: Sequence[Written]) -> Sequence[Row]:
    return await session.fetch_batch(
        "steps.record",
        columns={
            "lane": [each.lane for each in written],
            "token": [each.token for each in written],
            "delivery": [each.delivery for each in written],
            "name": [each.step.name for each in written],
            "attempt": [each.step.attempt for each in written],
            "done_at": [each.step.done_at for each in written],
            "result": [text_of(each.step.result_json) for each in written],
        },
    )


def step_of(name: str, attempt: int, done_at: datetime, result: str | None) -> Step:
    """A step from its columns."""
    result_json = NOTHING if result is None else msgspec.Raw(result.encode())
    return Step(name=name, attempt=attempt, done_at=done_at, result_json=result_json)


def text_of(result: msgspec.Raw) -> str | None:
    """A result as stored text; null is stored as no text."""
    text = bytes(result).decode()
    return None if text == "null" else text
