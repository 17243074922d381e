"""What the tables ask of a database, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

Row = Sequence[Any]
NamedRow = Mapping[str, Any]
Channel = Literal["claim", "settle", "plan", "batch", "any"]
"""The two calls that overlap have a connection each; everything else shares. `plan` is planned as
they are. `batch` is for a transaction in the middle of which a caller's code runs."""


class Session(Protocol):
    """Runs named statements; `:now` is filled in by the database."""

    async def fetch(
        self, statement: str, channel: Channel = "any", /, **parameters: Any
    ) -> Sequence[Row]:
        """Run a statement once; rows are positional."""

    async def fetch_named(
        self, statement: str, channel: Channel = "any", /, **parameters: Any
    ) -> Sequence[NamedRow]:
        """Run a statement that only reads; rows are by column name."""

    async def fetch_batch(
        self,
        statement: str,
        channel: Channel = "any",
        /,
        *,
        columns: Mapping[str, Sequence[Any]],
        **parameters: Any,
    ) -> Sequence[Row]:
        """Run a statement for a batch given as columns, in one transaction.

        PostgreSQL gets the columns as arrays; SQLite runs the statement once for each row.
        """


class Database(Session, Protocol):
    """A session for single statements, and for several that hold together."""

    refusals: tuple[type[Exception], ...]
    """What it raises when a write breaks one of its rules."""

    def together(self, channel: Channel = "any", /) -> AbstractAsyncContextManager[Session]:
        """Statements in one transaction: committed at the end, rolled back on an error."""

    def snapshot(self) -> AbstractAsyncContextManager[Session]:
        """Statements that only read, and all see the same moment, whatever others write."""
