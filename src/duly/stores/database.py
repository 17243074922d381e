"""The interface of a database, the same for PostgreSQL and SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

Row = Sequence[Any]
NamedRow = Mapping[str, Any]
Channel = Literal["claim", "settle", "plan", "batch", "any"]
"""`claim` and `settle` run at the same time and have a connection each; the others share a pool.
`plan` has the same query planner settings as these two, with which an index is read in its order,
also on a table that was never analyzed. `batch` is for a transaction in which
a caller's code runs."""


class Session(Protocol):
    """Runs named statements; the database sets the parameter `:now`."""

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
    """A session for single statements, and for several in one transaction."""

    refusals: tuple[type[Exception], ...]
    """The exceptions that it raises when a write violates a constraint."""

    def together(self, channel: Channel = "any", /) -> AbstractAsyncContextManager[Session]:
        """Statements in one transaction: committed at the end, rolled back on an error."""

    def snapshot(self) -> AbstractAsyncContextManager[Session]:
        """Read-only statements that all see the data as of the same moment."""
