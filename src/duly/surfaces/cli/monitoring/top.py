"""`duly top`: rates, due deliveries and workers on one screen, updated until you quit."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from duly.records.status import Top
from duly.safe_text import visible
from duly.signals import listen_for_signals
from duly.surfaces.cli.terminal.flags import COMMON, Backend, Common, backend
from duly.surfaces.cli.terminal.output import answer, cell, counted, facts, table
from duly.surfaces.cli.terminal.times import spelled

LOOK_SECONDS = 2.0
QUIT = set(b"qQ")
TOP_COLUMNS = ("worker", "busy", "handlers")


async def top(*, common: Common = COMMON) -> None:
    """Watch rates, due deliveries and workers; press q to quit. Without a terminal: print once."""
    async with backend(common) as app:
        if common.json or not (sys.stdout.isatty() and sys.stdin.isatty()):
            found = await app.stats.top()
            answer(common.json, found, lambda: screen(found))
        else:
            await _watch(app)


def screen(found: Top) -> str:
    """One screen of text."""
    summary = {
        "at": found.at,
        "accepted": f"{found.accepted_per_second:g} a second",
        "completed": f"{found.completed_per_second:g} a second",
        "failed": f"{found.failed_per_second:g} a second",
        "due": _due(found),
        "retries": f"{counted(found.retries, found.counted_up_to)} waiting",
        "workers": f"{len(found.workers)} alive",
    }
    rows = (
        (each.name, f"{each.holding}/{each.concurrency}", each.handlers) for each in found.workers
    )
    return f"{facts(summary)}\n\n{table(TOP_COLUMNS, rows, TOP_COLUMNS[-1:])}"


def _due(found: Top) -> str:
    if found.oldest_due_at is None:
        return "nothing"
    waits = (found.at - found.oldest_due_at).total_seconds()
    since = cell(found.oldest_due_at)
    count = counted(found.due, found.counted_up_to)
    return f"{count}, the oldest since {since} ({spelled(max(0.0, round(waits, 1)))})"


async def _watch(app: Backend) -> None:
    from rich.live import Live
    from rich.text import Text

    leave = asyncio.Event()
    with (
        listen_for_signals(leave.set),
        _keys(leave.set),
        Live(Text(""), screen=True, auto_refresh=False) as live,
    ):
        while not leave.is_set():
            shown = f"{screen(await app.stats.top())}\n\npress q to quit"
            live.update(Text(visible(shown)), refresh=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await leave.wait()


@contextmanager
def _keys(leave: Callable[[], None]) -> Iterator[None]:
    """Read single keys, without Enter and without echo."""
    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def read_key() -> None:
        # The end of the input: the terminal was closed.
        pressed = os.read(terminal, 100)
        if not pressed or QUIT & set(pressed):
            leave()

    tty.setcbreak(terminal)
    loop.add_reader(terminal, read_key)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSANOW, before)
