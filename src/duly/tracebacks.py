"""The traceback of a failed attempt as text: the user's frames, without values of variables.

It is formatted on the event loop for every failure, so everything is cut before it is formatted.
The `traceback` module would first format all of it, and search user objects for similar names.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import linecache
import os
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType

OUTER_FRAMES, INNER_FRAMES = 8, 12
FIRST_CAUSES, LAST_CAUSES = 5, 5
"""How many exceptions of a long chain are kept, at its start and at its end."""
MOST_MEMBERS, MOST_DEPTH, MOST_NOTES = 15, 10, 15
MOST_EXCEPTIONS = 100
"""After this many, no further members of groups are written."""
LONGEST_ENTRY = 1000
"""Characters kept of one frame or one exception's message."""
LONGEST_HEAD, LONGEST_TAIL = 3000, 5000
"""Characters kept of a long text: its start, and its end, which has the error."""
MACHINERY = tuple(
    f"{Path(file).parent}{os.sep}"
    for file in (__file__, asyncio.__file__, concurrent.futures.__file__)
)
"""Folders of the code between a worker's task and the user's function."""
CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def traceback_text(error: BaseException, *, own: bool = False) -> str | None:
    """The traceback of an error with its causes and groups; None if no frame is the user's.

    Frames of duly and asyncio above the user's function are left out, and a long text is cut in
    the middle. With `own`, these frames are kept if there are no others: the error is then
    probably in duly.
    """
    written = Written(error)
    if not written.has_frames:
        if not own:
            return None
        written = Written(error, keeps_machinery=True)
    text = "".join(written.entries).rstrip("\n")
    left_out = len(text) - LONGEST_HEAD - LONGEST_TAIL
    if left_out <= 0:
        return text
    return f"{text[:LONGEST_HEAD]}\n... {left_out} characters left out ...\n{text[-LONGEST_TAIL:]}"


class Written:
    """An exception with its causes and members, formatted as Python does."""

    def __init__(self, error: BaseException, *, keeps_machinery: bool = False) -> None:
        self.entries: list[str] = []
        self.has_frames = False
        self._kept_whole = error if keeps_machinery else None
        self._seen: set[int] = set()
        self._remaining = MOST_EXCEPTIONS
        self._write(error, 0)

    def _write(self, error: BaseException, depth: int) -> None:
        chain = self._chain(error)
        for each, link in chain[:FIRST_CAUSES]:
            self._write_one(each, link, depth)
        if (left_out := len(chain) - FIRST_CAUSES - LAST_CAUSES) > 0:
            self._add(f"\n... {left_out} exceptions left out ...\n", depth)
        for each, link in chain[FIRST_CAUSES:][-LAST_CAUSES:]:
            self._write_one(each, link, depth)

    def _chain(self, error: BaseException) -> list[tuple[BaseException, str]]:
        """The causes and then the error, each with the text that links it to the one before."""
        chain: list[tuple[BaseException, str]] = []
        following: BaseException | None = error
        while following is not None:
            each = following
            self._seen.add(id(each))
            following, link = _cause(each)
            if id(following) in self._seen:
                following = None
            chain.append((each, "" if following is None else link))
        chain.reverse()
        return chain

    def _write_one(self, error: BaseException, link: str, depth: int) -> None:
        self._remaining -= 1
        if link:
            self._add(link, depth)
        is_group = isinstance(error, BaseExceptionGroup)
        depth = max(depth, is_group)
        traceback = error.__traceback__
        if error is not self._kept_whole:
            traceback = _user_frames(traceback)
        if traceback is not None:
            self.has_frames = True
            kind = "Exception Group Traceback" if is_group else "Traceback"
            self._add(f"{kind} (most recent call last):\n", depth)
        for entry in (*_frames(traceback), *_message_lines(error)):
            self._add(entry, depth)
        if isinstance(error, BaseExceptionGroup):
            self._write_members(error.exceptions, depth)

    def _write_members(self, members: tuple[BaseException, ...], depth: int) -> None:
        indent, written = "  " * depth, 0
        for each in members[: MOST_MEMBERS if depth < MOST_DEPTH else 0]:
            if self._remaining <= 0:
                break
            corner = "  " if written else "+-"
            written += 1
            self.entries.append(f"{indent}{corner}+---------------- {written} ----------------\n")
            self._write(each, depth + 1)
        if left_out := len(members) - written:
            self._add(f"... {left_out} more exceptions left out ...\n", depth + 1)
        self.entries.append(f"{indent}  +------------------------------------\n")

    def _add(self, entry: str, depth: int) -> None:
        if len(entry) > LONGEST_ENTRY:
            entry = f"{entry[:LONGEST_ENTRY]}...\n"
        if depth:
            margin = "  " * depth + "| "
            entry = "".join(margin + line for line in entry.splitlines(keepends=True))
        self.entries.append(entry)


def _cause(error: BaseException) -> tuple[BaseException | None, str]:
    if error.__cause__ is not None:
        return error.__cause__, CAUSED
    context = error.__context__
    if context is None or error.__suppress_context__ or _is_machinery(context):
        return None, ""
    return context, DURING


def _is_machinery(error: BaseException) -> bool:
    """Whether no frame is the user's, as in the cancellation of a task waiting for a thread."""
    has_frames = error.__traceback__ is not None
    is_group = isinstance(error, BaseExceptionGroup)
    return has_frames and not is_group and _user_frames(error.__traceback__) is None


def _user_frames(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(MACHINERY):
            return traceback
        traceback = traceback.tb_next
    return None


def _frames(traceback: TracebackType | None) -> Iterator[str]:
    frames = _walk(traceback)
    yield from map(_frame, islice(frames, OUTER_FRAMES))
    inner: deque[TracebackType] = deque(maxlen=INNER_FRAMES)
    left_out = -INNER_FRAMES
    for each in frames:
        inner.append(each)
        left_out += 1
    if left_out > 0:
        yield f"  ... {left_out} frames left out ...\n"
    yield from map(_frame, inner)


def _walk(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _frame(traceback: TracebackType) -> str:
    frame, number = traceback.tb_frame, traceback.tb_lineno
    file = frame.f_code.co_filename
    place = f'  File "{file}", line {number}, in {frame.f_code.co_name}\n'
    # `tb_lineno` is None for an instruction without a line, although typed as int.
    line = linecache.getline(file, number or 0, frame.f_globals).strip()
    return f"{place}    {line}\n" if line else place


def _message_lines(error: BaseException) -> Iterator[str]:
    if isinstance(error, SyntaxError) and error.filename:
        yield f'  File "{error.filename}", line {error.lineno}\n    {(error.text or "").strip()}\n'
    name, message = class_name(error), _text(error)
    yield f"{name}: {message}\n" if message else f"{name}\n"
    notes = getattr(error, "__notes__", None)
    for note in notes[:MOST_NOTES] if isinstance(notes, list | tuple) else ():
        yield f"{_text(note)}\n"


def class_name(error: BaseException) -> str:
    """The class of an error, with its module."""
    kind = type(error)
    is_plain = kind.__module__ in ("__main__", "builtins")
    return kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}"


def _text(thing: object) -> str:
    try:
        return str(thing)
    except Exception:
        return f"<str() of {type(thing).__qualname__} failed>"
