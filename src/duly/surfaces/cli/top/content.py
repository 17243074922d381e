"""What a view shows: rows or lines, and what the keys do to each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rich.cells import chop_cells

from duly.records.dead_letter import DeadLetterFilter
from duly.surfaces.cli.top.views import Kind, View


class Tone(StrEnum):
    """How a row looks; its state is also a word."""

    PLAIN = "plain"
    GOOD = "good"
    BUSY = "busy"
    WARNING = "warning"
    BAD = "bad"
    FAINT = "faint"


class Verb(StrEnum):
    """What a key does."""

    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Move:
    """An operation on a record, or on all dead letters of `which`.

    If it has a question, it is asked first.
    """

    verb: Verb
    kind: Kind
    name: str
    question: str = ""
    which: DeadLetterFilter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a list; `key` identifies it when the list is read again."""

    key: str
    cells: tuple[str, ...]
    tone: Tone = Tone.PLAIN
    opens: View | None = None
    retry: Move | None = None
    pause: Move | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What was read for a view: lines above the rows, the rows, and lines below them.

    A record has only lines. `retry` and `pause` are the moves of a record. `more` says that the
    list goes on, and `empty` what to show instead of rows.
    """

    above: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    lines: tuple[str, ...] = ()
    retry: Move | None = None
    pause: Move | None = None
    more: bool = False
    empty: str = "none"


def folded(lines: Iterable[str], width: int) -> list[str]:
    """The lines, broken where they are wider than the terminal."""
    return [part for line in lines for part in (chop_cells(line, max(width, 2)) or [""])]
