"""Runs the SQLite statements on a connection: binding, decoding, batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import apsw
import msgspec

from duly.domain.moments import EPOCH, MICROSECOND, all_microseconds, microseconds
from duly.stores.database import Channel, Row
from duly.stores.sqlite.writer import Work
from duly.stores.statements import Statement, statements


class SqliteSession(ABC):
    """Runs named statements on the connections of `write` and `read`."""

    def __init__(self, moment: Callable[[], datetime]) -> None:
        self._moment = moment
        self._statements = statements("sqlite")

    @abstractmethod
    async def write(self, work: Work, *, alone: bool = False) -> Any:
        """Run work that may write; `alone` if it is atomic without a transaction."""

    @abstractmethod
    async def read(self, work: Work) -> Any:
        """Run work that only reads."""

    async def fetch(
        self,
        statement: str,
        channel: Channel = "any",  # noqa: ARG002 - one writer serves all channels
        /,
        **parameters: Any,
    ) -> Sequence[Row]:
        """Run a statement once; rows are positional."""
        found, bound = self._statements[statement], self._bound(parameters)
        return await self._write_rows(found, [bound])

    async def fetch_named(
        self,
        statement: str,
        channel: Channel = "any",  # noqa: ARG002 - readers serve all channels
        /,
        **parameters: Any,
    ) -> list[dict[str, Any]]:
        """Run a statement that only reads; rows are by column name."""
        found, bound = self._statements[statement], self._bound(parameters)
        rows: list[dict[str, Any]] = await self.read(lambda each: _named(each, found, bound))
        return rows

    async def fetch_batch(
        self,
        statement: str,
        channel: Channel = "any",  # noqa: ARG002 - one writer serves all channels
        /,
        *,
        columns: Mapping[str, Sequence[Any]],
        **parameters: Any,
    ) -> Sequence[Row]:
        """Run a statement for a batch, in one transaction.

        A statement with the parameter `:batch` gets all rows at once as JSON, so that Python's
        global lock is free meanwhile; any other runs once for each row.
        """
        found, bound = self._statements[statement], self._bound(parameters)
        names = tuple(columns)
        ready = [_column(name, values) for name, values in columns.items()]
        if "batch" in found.parameters:
            bound["batch"] = _json(ready)
            batch = [bound]
        else:
            batch = [bound | dict(zip(names, row, strict=True)) for row in zip(*ready, strict=True)]
        return await self._write_rows(found, batch)

    async def _write_rows(self, found: Statement, batch: Sequence[dict[str, Any]]) -> Sequence[Row]:
        alone = found.writes <= 1 and len(batch) == 1
        rows: Sequence[Row] = await self.write(lambda each: _run(each, found, batch), alone=alone)
        return rows

    def _bound(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        bound = {name: _plain(value) for name, value in parameters.items()}
        bound["now"] = microseconds(self._moment())
        return bound


def _run(
    connection: apsw.Connection, statement: Statement, batch: Sequence[dict[str, Any]]
) -> list[Row]:
    cursor = connection.cursor()
    rows: list[Row] = []
    for bound in batch:
        for row in cursor.execute(statement.text, bound):
            shape = _shape(cursor, statement)
            if shape.packed:
                rows.extend(map(shape.decoded, msgspec.json.decode(row[0])))
            else:
                rows.append(shape.decoded(row))
    return rows


class Shape(msgspec.Struct, frozen=True):
    """The columns of a statement's rows.

    Rows may be packed: all of them as one JSON array, in one column whose name lists theirs, as in
    `packed: a b c`. apsw releases Python's global lock for each row, and another thread may keep it
    for a while; with one row there is one wait.
    """

    names: tuple[str, ...]
    moments: tuple[int, ...]
    texts: tuple[int, ...]
    packed: bool

    def decoded(self, row: Sequence[Any]) -> Row:
        """The row with its times as datetimes and, if it was packed, its payload as bytes."""
        changed = list(row)
        for index in self.moments:
            if changed[index] is not None:
                changed[index] = EPOCH + changed[index] * MICROSECOND
        for index in self.texts:
            if changed[index] is not None:
                changed[index] = changed[index].encode()
        return changed


_SHAPES: dict[str, Shape] = {}


def _shape(cursor: apsw.Cursor, statement: Statement) -> Shape:
    known = _SHAPES.get(statement.name)
    if known is None:
        names = tuple(each[0] for each in cursor.get_description())
        packed = names[0].startswith("packed:")
        if packed:
            names = tuple(names[0].removeprefix("packed:").split())
        moments = tuple(index for index, name in enumerate(names) if name.endswith("_at"))
        texts = tuple(index for index, name in enumerate(names) if packed and name == "payload")
        known = _SHAPES[statement.name] = Shape(names, moments, texts, packed)
    return known


def _named(
    connection: apsw.Connection, statement: Statement, bound: dict[str, Any]
) -> list[dict[str, Any]]:
    cursor = connection.cursor()
    rows: list[dict[str, Any]] = []
    for row in cursor.execute(statement.text, bound):
        shape = _shape(cursor, statement)
        packed = msgspec.json.decode(row[0]) if shape.packed else [row]
        rows.extend(dict(zip(shape.names, shape.decoded(each), strict=True)) for each in packed)
    return rows


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return microseconds(value)
    return msgspec.json.encode(value).decode() if isinstance(value, list) else value


def _json(columns: Sequence[Sequence[Any]]) -> str:
    # Payloads are JSON and therefore text; as JSON strings they are restored byte for byte.
    texts = [
        [each.decode() for each in column] if isinstance(column[0], bytes) else column
        for column in columns
        if column
    ]
    return msgspec.json.encode(list(zip(*texts, strict=True))).decode()


def _column(name: str, values: Sequence[Any]) -> Sequence[Any]:
    if not name.endswith("_at"):
        return values
    if None in values:
        return [None if value is None else microseconds(value) for value in values]
    return all_microseconds(values)
