"""Tables that fit the width of a terminal; nothing is cut off.

Columns that do not fit on the line, and their headings, are on an indented line below.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len, chop_cells

GAP, INDENT = 2, 4
NARROWEST_FOLDED = 24
"""Text is folded to no less than this, so that an error does not become a column of words."""


@dataclass
class Column:
    """One column: the widths it needs, and the one that it gets."""

    place: int
    folds: bool
    least: int
    natural: int
    width: int = 0

    def lines(self, text: str) -> list[str]:
        """The text within the column's width."""
        if cell_len(text) <= self.width:
            return [text]
        return _folded(text, self.width) if self.folds else chop_cells(text, self.width)


def laid_out(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    folds: Collection[str] = (),
    width: int | None = None,
) -> list[str]:
    """The lines of a table; `folds` names the columns of text that may be broken at spaces.

    With a width a rule is drawn below the headings. Without one each row is one line.
    """
    columns = [
        _measured(place, heading, [row[place] for row in rows], heading in folds)
        for place, heading in enumerate(headings)
    ]
    if width is None:
        for each in columns:
            each.width = each.natural
        return [line for row in (headings, *rows) for line in _drawn(row, [columns])]
    layers = _packed(columns, width)
    head = list(_drawn(headings, layers))
    body = [line for row in rows for line in _drawn(row, layers)]
    return [*head, "─" * min(width, max(map(cell_len, (*head, *body)))), *body]


def _measured(place: int, heading: str, cells: Sequence[str], folds: bool) -> Column:
    natural = max(map(cell_len, (heading, *cells)))
    if not folds:
        return Column(place, folds, natural, natural)
    # A word is kept whole if it can be: it may be a name.
    words = (cell_len(word) for text in (heading, *cells) for word in text.split(" "))
    return Column(place, folds, min(natural, max(NARROWEST_FOLDED, *words)), natural)


def _packed(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """The columns in lines that fit, in their order, each with its width."""
    layers: list[list[Column]] = [[]]
    room = width
    for each in columns:
        needed = min(each.least, width - INDENT) + (GAP if layers[-1] else 0)
        if layers[-1] and needed > room:
            _widen(layers[-1], room)
            layers.append([])
            room, needed = width - INDENT, min(each.least, width - INDENT)
        each.width = min(each.least, width - INDENT)
        layers[-1].append(each)
        room -= needed
    _widen(layers[-1], room)
    return layers


def _widen(layer: Sequence[Column], room: int) -> None:
    """Give the remaining width to columns that can use it."""
    for each in layer:
        more = min(each.natural - each.width, room)
        each.width += more
        room -= more


def _drawn(row: Sequence[str], layers: Sequence[Sequence[Column]]) -> Iterator[str]:
    for number, layer in enumerate(layers):
        cells = [each.lines(row[each.place]) for each in layer]
        for parts in zip_longest(*cells, fillvalue=""):
            padded = (
                part + " " * (each.width - cell_len(part))
                for part, each in zip(parts, layer, strict=True)
            )
            line = (" " * GAP).join(padded).rstrip()
            if line:
                yield " " * (INDENT if number else 0) + line


def _folded(text: str, width: int) -> list[str]:
    lines, line = list[str](), ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *full, line = chop_cells(word, width) or [""]
        lines += full
    return [*lines, line]
