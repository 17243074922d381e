"""The traceback of a failed attempt as text: the user's frames, never the values of variables."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Iterator
from pathlib import Path
from traceback import StackSummary, TracebackException

OUTER_FRAMES, INNER_FRAMES = 8, 12
LONGEST_ENTRY = 1000
"""How many characters of one frame, or of one exception's message, are kept."""
LONGEST_HEAD, LONGEST_TAIL = 3000, 5000
"""How many characters of a longer text are kept: its beginning, and its end, where the error is."""
MACHINERY = tuple(
    f"{Path(file).parent}{os.sep}"
    for file in (__file__, asyncio.__file__, concurrent.futures.__file__)
)
"""Code that stands between a worker's task and the user's function."""


def traceback_text(error: BaseException, *, own: bool = False) -> str | None:
    """The traceback of an error with its causes and groups; None if no frame is the user's.

    Frames of duly and asyncio above the user's function are left out, and what is too long is cut
    in the middle. `own` keeps them if there are no others: then the fault is probably duly's.
    """
    found = TracebackException.from_exception(error, lookup_lines=False, compact=True)
    whole = found.stack
    if not any(each.stack for each in list(_trimmed(found))):
        if not own:
            return None
        found.stack = Trimmed(whole)
    text = "".join(_cut(entry) for entry in found.format()).rstrip("\n")
    left_out = len(text) - LONGEST_HEAD - LONGEST_TAIL
    if left_out <= 0:
        return text
    return f"{text[:LONGEST_HEAD]}\n... {left_out} characters left out ...\n{text[-LONGEST_TAIL:]}"


class Trimmed(StackSummary):
    """The frames of one exception, shown without the middle ones if there are many."""

    def format(self, **options: bool) -> list[str]:
        """One entry for each frame that is shown."""
        left_out = len(self) - OUTER_FRAMES - INNER_FRAMES
        if left_out <= 0:
            return super().format(**options)
        outer, inner = self[:OUTER_FRAMES], self[-INNER_FRAMES:]
        return [
            *StackSummary.from_list(outer).format(**options),
            f"  ... {left_out} frames left out ...\n",
            *StackSummary.from_list(inner).format(**options),
        ]


def _trimmed(found: TracebackException) -> Iterator[TracebackException]:
    """The exception and all that belong to it, each trimmed."""
    waiting = [found]
    while waiting:
        each = waiting.pop()
        each.stack = Trimmed(_from_the_user_on(each.stack))
        if each.__context__ is not None and _is_machinery(each.__context__):
            # The cancellation of the task that waits for a plain handler, for example.
            each.__context__ = None
        yield each
        chained = (each.__cause__, each.__context__, *(each.exceptions or ()))
        waiting += [other for other in chained if other is not None]


def _from_the_user_on(stack: StackSummary) -> StackSummary:
    for index, frame in enumerate(stack):
        if not frame.filename.startswith(MACHINERY):
            return StackSummary.from_list(stack[index:])
    return StackSummary()


def _is_machinery(found: TracebackException) -> bool:
    return bool(found.stack) and not _from_the_user_on(found.stack) and not found.exceptions


def _cut(entry: str) -> str:
    return entry if len(entry) <= LONGEST_ENTRY else f"{entry[:LONGEST_ENTRY]}...\n"
