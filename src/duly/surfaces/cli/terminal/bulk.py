"""Bulk operations: count, confirm, run with a progress bar, and show how to continue."""

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
from duly.surfaces.cli.terminal.confirmation import Yes, confirmed
from duly.surfaces.cli.terminal.flags import Common
from duly.surfaces.cli.terminal.output import print_message, progress

Step = TypeVar("Step")
Rate = Annotated[float | None, Parameter(help="The most per second; by default all at once.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Bulk:
    """Flags of a bulk operation."""

    dry_run: Annotated[bool, Parameter(negative=(), help="Only count; change nothing.")] = False
    yes: Yes = False

    def should_run(self, matching: int, question: str) -> bool:
        """Whether to run: something matches, and the user confirms."""
        if not matching or self.dry_run:
            return False
        return self.yes or confirmed(question, "--yes, or --dry-run to only count")


@Parameter(name="*")
@dataclass(frozen=True)
class Which(Bulk):
    """Flags of a bulk operation that needs a filter or --all."""

    everything: Annotated[
        bool, Parameter(name="--all", negative=(), help="All of them, without a filter.")
    ] = False


BULK = Bulk()
WHICH = Which()


def flag(name: str, value: str) -> list[str]:
    """A flag with its value; a value that begins with a hyphen needs `=`."""
    return [f"--{name}={value}"] if value.startswith("-") else [f"--{name}", value]


def store_flags(common: Common) -> list[str]:
    """The given flags that select the store or server."""
    database = None if common.database is None else shown(common.database)
    given = {"database": database, "namespace": common.namespace, "server": common.server}
    return [part for name, each in given.items() if each is not None for part in flag(name, each)]


STOPS = (asyncio.CancelledError, KeyboardInterrupt)
"""The first Ctrl-C cancels; a second one interrupts the Python code that runs at that moment."""


async def run_bulk(
    what: str,
    total: int,
    moves: AsyncIterator[BulkProgress],
    command: Sequence[str],
    *,
    resumes: bool = True,
) -> BulkResult:
    """Run a bulk operation; if it is stopped, print the command that continues it.

    Without `resumes`, it is continued by the same command, without `--until`.
    """
    done, until = 0, None
    try:
        with progress(what, total) as advance:
            async for each in stoppable(moves):
                advance(each.done - done)
                done, until = each.done, each.until
    except STOPS as stop:
        moved = stopped_after(done, stop)
        again = _continuation(command, until if resumes else None)
        print_message(f"stopped after {moved}; to continue: {again}")
        raise
    return BulkResult(matching=total, moved=done, until=until)


async def stoppable(steps: AsyncIterator[Step]) -> AsyncIterator[Step]:
    """The steps of a bulk operation; if it is stopped, the current step is finished first."""
    while True:
        step = asyncio.ensure_future(anext(steps))
        try:
            await asyncio.wait((step,))
        except asyncio.CancelledError:
            print_message("stopping; waiting for the current batch, so that it is counted")
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
    except asyncio.CancelledError as second:
        raise Abandoned from second


def stopped_after(done: int, stop: BaseException) -> str:
    """How many were moved before it was stopped; after a second Ctrl-C, at least so many."""
    return f"at least {done}" if isinstance(stop, Abandoned | KeyboardInterrupt) else f"{done}"


def _continuation(command: Sequence[str], until: datetime | None) -> str:
    same = () if until is None or "--until" in command else ("--until", until.isoformat())
    return shlex.join(("duly", *command, *same))
