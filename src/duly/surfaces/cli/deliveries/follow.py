"""Shows the attempts of one delivery until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from duly.domain.deliveries.states import FINISHED
from duly.records.attempt import HistoryEntry
from duly.records.delivery import Delivery
from duly.surfaces.cli.terminal.flags import Backend
from duly.surfaces.cli.terminal.output import cell, print_message

LOOK_SECONDS = 0.2


async def follow(app: Backend, id: str, show: Callable[[str], None]) -> Delivery:
    """Show each attempt once it is recorded; returns the finished delivery."""
    seen: Sequence[HistoryEntry] = ()
    try:
        while True:
            # Read first: if it has ended, the history that is read next is complete.
            delivery = await app.deliveries.get(id)
            history = await app.deliveries.history(id)
            for each in history:
                if each not in seen:
                    show(line(each))
            if delivery.state in FINISHED:
                return delivery
            seen = history
            await app.clock.sleep(LOOK_SECONDS)
    except asyncio.CancelledError:
        print_message(f"the delivery continues: duly deliveries show {id}")
        raise


def line(attempt: HistoryEntry) -> str:
    """One attempt or other change on one line: the answer, the failure, and what follows."""
    details = [*_exchange(attempt.answer or {}), *_failure(attempt)]
    title = "" if attempt.started_at is None else f"attempt {attempt.attempt}: "
    return f"{cell(attempt.finished_at)}  {title}{'; '.join([*details, _consequence(attempt)])}"


def _exchange(answer: dict[str, Any]) -> list[str]:
    if not answer:
        return []
    status, timing = answer.get("status"), answer.get("timing") or {}
    parts = ", ".join(f"{part} {milliseconds:.0f} ms" for part, milliseconds in timing.items())
    text = f"{f'status {status}' if status else 'no answer'}{f' ({parts})' if parts else ''}"
    return [text, *([cell(answer["note"])] if answer.get("note") else [])]


def _failure(attempt: HistoryEntry) -> list[str]:
    if attempt.reason is None:
        return []
    return [f"{attempt.reason}: {cell(attempt.error)}" if attempt.error else attempt.reason]


def _consequence(attempt: HistoryEntry) -> str:
    if attempt.next_at is None:
        return attempt.outcome
    return f"{attempt.outcome} at {cell(attempt.next_at)}"
