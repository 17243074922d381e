"""Draws the board: with rich at a terminal, else as plain lines; and the result as a table."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from duly.ports import Clock
from duly.safe_text import visible
from duly.surfaces.cli.demo.board import Board, ServerState
from duly.surfaces.cli.demo.counting import DemoResult
from duly.surfaces.cli.terminal.output import print_message, table
from duly.surfaces.cli.terminal.times import spelled

FRAME_SECONDS = 0.1
SHOWN_LINES = 14
COLUMNS = ("kind", "accepted", "arrived", "late", "lost", "doubled")
STYLES = {
    ServerState.STARTING: "yellow",
    ServerState.RUNNING: "green",
    ServerState.KILLED: "bold red",
}


def line_printer(*, as_json: bool) -> Callable[[str], None]:
    """Where lines are printed: nowhere if they are drawn, and to stderr beside a document."""
    if as_json:
        return print_message
    return _ignore if sys.stdout.isatty() else _print


def _ignore(_line: str) -> None:
    """The line is drawn."""


def _print(line: str) -> None:
    print(visible(line), flush=True)


@asynccontextmanager
async def drawn(board: Board, clock: Clock, *, as_json: bool) -> AsyncIterator[None]:
    """Draw the board at a terminal while the block runs."""
    if as_json or not sys.stdout.isatty():
        yield
        return
    from rich.live import Live

    with Live(_picture(board), auto_refresh=False) as live:

        async def redraw() -> None:
            while True:
                live.update(_picture(board), refresh=True)
                await clock.sleep(FRAME_SECONDS)

        drawing = asyncio.ensure_future(redraw())
        try:
            yield
        finally:
            drawing.cancel()
            live.update(_picture(board), refresh=True)


def _picture(board: Board) -> Any:
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    server = Text.assemble("server: ", (board.server, STYLES[board.server]))
    if board.server is ServerState.KILLED:
        server.append(f"   {board.waiting} due and waiting", "red")
    lines = Text("\n".join(map(visible, board.lines[-SHOWN_LINES:])))
    return Panel(Group(lines, Text(), server, _bars(board)), title="duly demo", expand=False)


def _bars(board: Board) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    bars = Table.grid(padding=(0, 2))
    for kind, accepted in board.accepted.items():
        arrived = board.arrivals.by_kind[kind]
        bar = ProgressBar(total=accepted, completed=arrived, width=40)
        bars.add_row(kind, bar, f"{arrived} of {accepted}")
    return bars


def report(result: DemoResult) -> str:
    """The result as text: a table, and one sentence."""
    rows = [
        (each.kind, each.accepted, each.arrived, each.late, each.lost, each.doubled)
        for each in result.kinds
    ]
    return f"\n{table(COLUMNS, rows)}\n\n{_sentence(result)}"


def _sentence(result: DemoResult) -> str:
    verdict = "Everything arrived" if result.ok else "NOT everything arrived as it should"
    return (
        f"{verdict}: {result.arrived} of {result.accepted} deliveries, {result.lost} lost, "
        f"{result.doubled} doubled, {result.out_of_order} out of order, "
        f"{result.not_verified} with a wrong signature.\n"
        f"{result.late} were late because the server was away for {spelled(result.seconds_away)}; "
        f"the latest by {spelled(result.longest_late_seconds)}.\n"
        f"{result.sent_again} were being sent at the kill and were sent again with the same id."
    )
