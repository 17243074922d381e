"""Test access to streams: short ways to move them, and every column of their lanes."""

from __future__ import annotations

from typing import Any

from duly.domain.deliveries.delivery import Claimed
from duly.domain.deliveries.outcomes import Settlement, Verdict, emptied
from duly.domain.moments import microseconds
from duly.services.streams import Streams
from duly.stores.postgres.database import Postgres
from tests.stores.store_probe import Row, StoreProbe, _plain, settlement

NAME = "team:7"


class StreamProbe:
    """The streams of one process, and a worker that claims from them."""

    def __init__(self, probe: StoreProbe) -> None:
        self.probe = probe
        self.service = Streams(probe.store, actor="kim")
        self._worker: int | None = None

    async def add(self, count: int = 1, **changes: Any) -> list[str]:
        """Accept deliveries into the stream; returns their ids."""
        return [await self.probe.deliver(**{"stream": NAME} | changes) for _ in range(count)]

    async def claim(self) -> Claimed | None:
        """Claim whatever is due in the stream; None when there is nothing."""
        self._worker = self._worker or await self.probe.worker()
        found = await self.probe.claim(self._worker)
        assert len(found) <= 1
        return found[0] if found else None

    async def settle(self, claimed: Claimed, verdict: Verdict, **changes: Any) -> bool:
        """Write the outcome; returns whether it applied."""
        given = self.settlement(claimed, verdict, **changes)
        return claimed.lane in await self.probe.settle(given)

    def settlement(self, claimed: Claimed, verdict: Verdict, **changes: Any) -> Settlement:
        """A settlement of a delivery in a stream, with its position and policy."""
        facts: Row = {"position": claimed.position, "on_failure": claimed.on_failure}
        if verdict is Verdict.COMPLETED:
            facts["answer"] = None
        return settlement(claimed, verdict, self.probe.clock.now(), **facts | changes)

    async def run_head(self, verdict: Verdict = Verdict.COMPLETED, **changes: Any) -> str:
        """Claim the head and settle it; returns its id."""
        claimed = await self.claim()
        assert claimed is not None
        assert await self.settle(claimed, verdict, **changes)
        return claimed.id

    async def lane_is_removed(self) -> bool:
        """Whether the stream's lane is removed after a few empty claims."""
        for _ in range(3):
            self.probe.clock.advance(1)
            found = await self.claim()
            if found is None:
                break
            assert found.id is None, "the stream is not empty"
            await self.probe.settle(emptied(found, microseconds(self.probe.clock.now())))
        return await self.probe.count("agenda") == 0

    async def lane(self, name: str = NAME) -> Row | None:
        """Every column of the stream's lane, with the head's id; None without a lane."""
        column = "id" if isinstance(self.probe.store.database, Postgres) else "number"
        rows = await self.probe.sql(
            f"select a.*, d.id as head from duly.agenda a join duly.streams s on s.lane = a.lane"
            f" left join duly.deliveries d on d.{column} = a.delivery where s.name = '{name}'"
        )
        if not rows:
            return None
        return _plain({name: rows[0][name] for name in rows[0] if name not in ("lane", "delivery")})

    async def own_lane(self, id: str) -> Row:
        """Every column of the lane of a delivery that left its stream."""
        rows = await self.probe.sql(
            f"select * from duly.agenda where lane = {self.probe.agenda_id(id)}"
        )
        return _plain(rows[0])

    async def row(self, name: str = NAME) -> Row | None:
        """Every column of the stream itself except its lane."""
        rows = await self.probe.sql(f"select * from duly.streams where name = '{name}'")
        return _plain({key: rows[0][key] for key in rows[0] if key != "lane"}) if rows else None
