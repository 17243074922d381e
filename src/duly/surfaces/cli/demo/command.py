"""`duly demo`: accept work, kill the server, start it again, and count what arrived."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from duly.errors import InvalidInput
from duly.surfaces.cli.demo.board import Board
from duly.surfaces.cli.demo.counting import DemoResult
from duly.surfaces.cli.demo.drawing import drawn, line_printer, report
from duly.surfaces.cli.demo.removal import remove_samples
from duly.surfaces.cli.demo.sample_work import Plan
from duly.surfaces.cli.demo.story import Story
from duly.surfaces.cli.terminal.exit_codes import FAILED
from duly.surfaces.cli.terminal.flags import COMMON, Common, client
from duly.surfaces.cli.terminal.output import answer, facts, fields, print_message
from duly.system import SystemClock

LEAST_ORDERS, MOST_ORDERS = 24, 2000
LONGEST_AWAY = 20
INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What stops the demo; the last is sent when the terminal is closed."""


async def demo(
    *,
    orders: Annotated[int, Parameter(help="How many orders are due at once.")] = 400,
    away: Annotated[int, Parameter(help="How many seconds the server is away.")] = 6,
    remove: Annotated[
        bool,
        Parameter(negative=(), help="Instead, remove the sample traffic of `duly serve --demo`."),
    ] = False,
    common: Common = COMMON,
) -> int:
    """Kill a server in the middle of its work, start it again, and count: nothing is lost.

    It uses a temporary folder and addresses on this machine only, takes less than a minute, and
    leaves nothing behind. Exit code 0 if everything arrived exactly once.
    """
    if remove:
        return await _remove(common)
    _check("orders", orders, LEAST_ORDERS, MOST_ORDERS)
    _check("away", away, 1, LONGEST_AWAY)
    _refuse_store(common)
    return await _run(Plan(orders, away), as_json=common.json)


async def _remove(common: Common) -> int:
    async with client(common) as app:
        removed = await remove_samples(app)
    answer(common.json, removed, lambda: facts(fields(removed)))
    return 0


def _refuse_store(common: Common) -> None:
    for name in ("database", "namespace", "server"):
        if getattr(common, name) is not None:
            raise InvalidInput(name, "the demo makes a database of its own; it is for --remove")


async def _run(plan: Plan, *, as_json: bool) -> int:
    playing = asyncio.ensure_future(_play(plan, as_json=as_json))
    with _stopped_by_signals(playing):
        try:
            result = await playing
        except asyncio.CancelledError:
            with suppress(OSError):  # the terminal is closed
                print_message("the demo was stopped; nothing is left behind")
            return INTERRUPTED
    answer(as_json, result, lambda: report(result))
    return 0 if result.ok else FAILED


@contextmanager
def _stopped_by_signals(playing: asyncio.Future[DemoResult]) -> Iterator[None]:
    """The first signal stops the demo; more are ignored while it removes what it made."""
    loop, received = asyncio.get_running_loop(), list[int]()

    def stop(number: int) -> None:
        if not received:
            playing.cancel()
        received.append(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def _check(field: str, given: int, least: int, most: int) -> None:
    if not least <= given <= most:
        raise InvalidInput(field, f"{given} is not from {least} to {most:,}")


async def _play(plan: Plan, *, as_json: bool) -> DemoResult:
    clock = SystemClock()
    board = Board(plan.accepted(), clock, line_printer(as_json=as_json))
    with tempfile.TemporaryDirectory(prefix="duly-demo-") as folder:
        async with drawn(board, clock, as_json=as_json):
            return await Story(plan, Path(folder), clock, board).play()
