"""One sweep at a time: a transaction in which dead letters of a namespace are retried.

It begins with the namespace's row of `recovery`, which one worker at a time can lock; another one
does nothing then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import groupby
from typing import TypeVar

from duly.failpoints import hit
from duly.ports import Cause, Retry
from duly.stores import unique_keys
from duly.stores.database import Database, Row, Session
from duly.stores.deliveries.revived import retry_some
from duly.stores.streams.members import Members

Item = TypeVar("Item")


def by_stream(
    items: Iterable[Item], stream_of: Callable[[Item], str | None]
) -> Iterator[tuple[str | None, list[Item]]]:
    """The items of each stream, and those without one."""
    for _, group in groupby(sorted(items, key=lambda each: stream_of(each) or ""), stream_of):
        found = list(group)
        yield stream_of(found[0]), found


class Sweeps:
    """Sweeps of one namespace."""

    def __init__(self, database: Database, namespace: str, members: Members) -> None:
        self._database = database
        self._namespace = namespace
        self.members = members

    @asynccontextmanager
    async def alone(self, doing: str = "decide") -> AsyncIterator[tuple[Session, Row | None]]:
        """A transaction, with the namespace's row; None if another worker has locked it."""
        await self._database.fetch("recovery.open", namespace=self._namespace)
        await hit(f"{doing}.before")
        async with self._database.together() as session:
            rows = await session.fetch("recovery.lock", namespace=self._namespace)
            yield session, rows[0] if rows else None
            await hit(f"{doing}.middle")
        await hit(f"{doing}.after")

    async def pace(self, session: Session, paced_at: datetime) -> None:
        """Note up to when the rate is used up."""
        await session.fetch("recovery.pace", namespace=self._namespace, paced_at=paced_at)

    async def revive(
        self,
        session: Session,
        stream: str | None,
        counts: dict[str, int],
        cause: Cause,
        generation: str | None = None,
    ) -> int:
        """Retry dead letters outside of streams or of one, given with their new revivals.

        One whose unique key another delivery has that waits ends instead.
        """
        ids = list(counts)
        if stream is not None:
            await self.members.bring_back(session, ids, True, cause)
        elif ids:
            how = Retry(reset=True)
            _, taken = await retry_some(session, self._namespace, ids, how, cause)
            await unique_keys.supersede(session, taken.items())
        if ids:
            await session.fetch_batch(
                "recovery.revived",
                columns={"id": ids, "revivals": list(counts.values())},
                generation=generation,
            )
        return len(ids)
