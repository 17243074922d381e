"""Lists as commands print them: a table for people, or one JSON document."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from duly.surfaces.cli.terminal.flags import Common
from duly.surfaces.cli.terminal.output import answer_page, table


@dataclass(frozen=True)
class Columns:
    """The columns of a list: headings, each with a field of the record or a function of it."""

    shown: Mapping[str, str | Callable[[Any], object]]
    folds: Collection[str] = ()

    def table(self, found: Sequence[Any]) -> str:
        """The records as a table."""
        cells = [
            attrgetter(each) if isinstance(each, str) else each for each in self.shown.values()
        ]
        rows = (tuple(cell(each) for cell in cells) for each in found)
        return table(tuple(self.shown), rows, self.folds)


def answer_list(
    common: Common,
    found: Sequence[Any],
    columns: Columns,
    limit: int | None = None,
    next_from: str = "id",
    flag: str = "--after",
) -> None:
    """Print up to `limit` records; one more than that in `found` means that there is a next page.

    The next page begins after the field `next_from` of the last record.
    """
    page = found[:limit]
    cursor = str(getattr(page[-1], next_from)) if len(found) > len(page) else None
    answer_page(common.json, page, cursor, lambda: columns.table(page), flag)
