"""Moving many: counted, asked about, done with a progress bar, and gone on with when stopped."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from duly.domain.database_urls import shown
from duly.records.dead_letter import BulkProgress, BulkResult
from duly.services.interruption import Abandoned
from duly.surfaces.cli.terminal.confirmation import Yes, agreed
from duly.surfaces.cli.terminal.flags import Common
from duly.surfaces.cli.terminal.output import progress, talk

Step = TypeVar("Step")
Rate = Annotated[float | None, Parameter(help="The most per second; all at once without.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Bulk:
    """Whether many are to be moved, or only counted."""

    dry_run: Annotated[bool, Parameter(negative=(), help="Count, and change nothing.")] = False
    yes: Yes = False

    def wants(self, matching: int, question: str) -> bool:
        """Whether to go on: there is something to move, and somebody wants it."""
        if not matching or self.dry_run:
            return False
        return self.yes or agreed(question, "--yes, or --dry-run to only count")


@Parameter(name="*")
@dataclass(frozen=True)
class Which(Bulk):
    """Whether all are meant, and only to be counted."""

    everything: Annotated[
        bool, Parameter(name="--all", negative=(), help="All of them, without a filter.")
    ] = False


BULK = Bulk()
WHICH = Which()


def flag(name: str, value: str) -> list[str]:
    """A flag on another command line; what begins with a hyphen is a value only if glued to it."""
    return [f"--{name}={value}"] if value.startswith("-") else [f"--{name}", value]


def whereabouts(common: Common) -> list[str]:
    """The flags that name the same books again, as far as they were given."""
    database = None if common.database is None else shown(common.database)
    given = {"database": database, "namespace": common.namespace, "server": common.server}
    return [part for name, each in given.items() if each is not None for part in flag(name, each)]


STOPS = (asyncio.CancelledError, KeyboardInterrupt)
"""The first Ctrl-C cancels; a second one interrupts the Python code that runs at that moment."""


async def carry_out(
    what: str, total: int, moves: AsyncIterator[BulkProgress], command: Sequence[str]
) -> BulkResult:
    """Move them all; if it is stopped, say which command continues the same operation."""
    done, until = 0, None
    try:
        with progress(what, total) as advance:
            async for each in stoppable(moves):
                advance(each.done - done)
                done, until = each.done, each.until
    except STOPS as stop:
        moved = stopped_after(done, stop)
        talk(f"stopped after {moved}; for the rest: {_again(command, until)}")
        raise
    return BulkResult(matching=total, moved=done, until=until)


async def stoppable(steps: AsyncIterator[Step]) -> AsyncIterator[Step]:
    """The steps of a move of many; whoever stops it hears what is waited for."""
    while True:
        step = asyncio.ensure_future(anext(steps))
        try:
            await asyncio.wait((step,))
        except asyncio.CancelledError:
            talk("stopping; waiting for what is under way, so that it is counted")
            step.cancel()
            await _wait_for(step)
        try:
            result = step.result()
        except StopAsyncIteration:
            return
        yield result


async def _wait_for(step: asyncio.Future[Any]) -> None:
    try:
        await asyncio.wait((step,))
    except asyncio.CancelledError as again:
        raise Abandoned from again


def stopped_after(done: int, stop: BaseException) -> str:
    """How many were moved before it was stopped; only a second Ctrl-C leaves that open."""
    return f"at least {done}" if isinstance(stop, Abandoned | KeyboardInterrupt) else f"{done}"


def _again(command: Sequence[str], until: datetime | None) -> str:
    same = () if until is None or "--until" in command else ("--until", until.isoformat())
    return shlex.join(("duly", *command, *same))
