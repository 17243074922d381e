"""Lists as commands print them: a table for people, or one JSON document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from duly.surfaces.cli.terminal.flags import Common
from duly.surfaces.cli.terminal.output import answer_page, table


class Columns:
    """The columns of a table of records, as in `Columns("id slots=concurrency", folds="id")`.

    A column shows a field, below its name without `_at`, or below the heading before `=`. A field
    may be within another: `head.id`. `computed` has columns, by name, that are functions.
    """

    def __init__(self, fields: str, folds: str = "", **computed: Callable[[Any], object]) -> None:
        columns = [each.rpartition("=") for each in fields.split()]
        self._headings = [_words(heading or field) for heading, _, field in columns]
        self._fields = [field for _, _, field in columns]
        self._computed = computed
        self._folds = folds.split()

    def table(self, found: Sequence[Any]) -> str:
        """The records as a table."""
        rows = ([self._cell(each, field) for field in self._fields] for each in found)
        return table(self._headings, rows, self._folds)

    def _cell(self, record: Any, field: str) -> object:
        if field in self._computed:
            return self._computed[field](record)
        for name in field.split("."):
            record = None if record is None else getattr(record, name)
        return record


def _words(field: str) -> str:
    return field.removesuffix("_at").replace("_", " ")


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
