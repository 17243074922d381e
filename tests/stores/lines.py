"""Streams on the books: short ways to move them, and every column of their lanes."""

from __future__ import annotations

from typing import Any

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Settlement, Verdict, emptied
from duly.services.streams import Streams
from duly.stores.postgres.database import Postgres
from tests.stores.books import Books, Row, _plain, settlement

NAME = "team:7"


class Lines:
    """The streams of one process, and a worker that takes from them."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.people = Streams(books.store, actor="somebody")
        self._worker: int | None = None

    async def add(self, count: int = 1, **changes: Any) -> list[str]:
        """Store so many in the stream; returns their ids."""
        return [await self.books.deliver(**{"stream": NAME} | changes) for _ in range(count)]

    async def claim(self) -> Claimed | None:
        """Claim whatever the stream has; None when there is nothing."""
        self._worker = self._worker or await self.books.worker()
        found = await self.books.claim(self._worker)
        assert len(found) <= 1
        return found[0] if found else None

    async def settle(self, claimed: Claimed, verdict: Verdict, **changes: Any) -> bool:
        """Write what became of it; whether that applied."""
        given = self.settlement(claimed, verdict, **changes)
        return claimed.lane in await self.books.settle(given)

    def settlement(self, claimed: Claimed, verdict: Verdict, **changes: Any) -> Settlement:
        """A settlement of one in line, with its place and policy."""
        facts: Row = {"position": claimed.position, "on_failure": claimed.on_failure}
        if verdict is Verdict.COMPLETED:
            facts["answer"] = None
        return settlement(claimed, verdict, self.books.clock.now(), **facts | changes)

    async def ended(self, verdict: Verdict = Verdict.COMPLETED, **changes: Any) -> str:
        """Claim the head and settle it; returns its id."""
        claimed = await self.claim()
        assert claimed is not None
        assert await self.settle(claimed, verdict, **changes)
        return claimed.id

    async def empties(self) -> bool:
        """Whether the stream's lane goes away by itself, looked at often enough."""
        for _ in range(3):
            self.books.clock.advance(1)
            found = await self.claim()
            if found is None:
                break
            assert found.id is None, "somebody was still there"
            await self.books.settle(emptied(found, self.books.clock.now()))
        return await self.books.count("agenda") == 0

    async def lane(self, name: str = NAME) -> Row | None:
        """Every column of the stream's lane, its head by its id; None when it has none."""
        place = "id" if isinstance(self.books.store.database, Postgres) else "number"
        rows = await self.books.sql(
            f"select a.*, d.id as head from duly.agenda a join duly.streams s on s.lane = a.lane"
            f" left join duly.deliveries d on d.{place} = a.delivery where s.name = '{name}'"
        )
        if not rows:
            return None
        return _plain({name: rows[0][name] for name in rows[0] if name not in ("lane", "delivery")})

    async def own(self, id: str) -> Row:
        """Every column of the lane of one that has left the line."""
        rows = await self.books.sql(
            f"select * from duly.agenda where lane = {self.books.place(id)}"
        )
        return _plain(rows[0])

    async def row(self, name: str = NAME) -> Row | None:
        """Every column of the stream itself but its lane."""
        rows = await self.books.sql(f"select * from duly.streams where name = '{name}'")
        return _plain({key: rows[0][key] for key in rows[0] if key != "lane"}) if rows else None
