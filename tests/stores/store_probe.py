"""Test access to a store: short ways to fill it, and every column that it wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from duly.domain.deliveries.delivery import Claimed, Lane, PreparedDelivery
from duly.domain.deliveries.identifiers import delivery_id, token
from duly.domain.deliveries.outcomes import Settlement, Verdict
from duly.domain.moments import microseconds
from duly.errors import Conflict
from duly.ports import ClaimRequest
from duly.records.delivery import Accepted
from duly.stores.postgres.database import Postgres
from duly.stores.sqlite.database import Sqlite
from duly.stores.store import SqlStore, store_at
from duly.testing import VirtualClock

START = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]
STREAM_COLUMNS = ("position", "replay_from", "halted", "halted_at", "unblocks_at")
"""Columns that only the lane of a stream has."""


def number_id(number: int) -> str:
    """The delivery id with this number; ids sort by number."""
    return delivery_id(int(START.timestamp() * 1000) + number, number)


class StoreProbe:
    """One namespace of one database, with its clock."""

    def __init__(self, store: SqlStore, clock: VirtualClock) -> None:
        self.store = store
        self.clock = clock
        self._made = 0
        self._claims = 0

    def request(self, **changes: Any) -> PreparedDelivery:
        """A delivery that is due now, unless changed."""
        self._made += 1
        facts: Row = {"id": number_id(self._made), "target": "mail", "payload": b'{"n": 1}'}
        return PreparedDelivery(**facts | changes)

    async def accept(self, *requests: PreparedDelivery) -> list[Accepted | Conflict]:
        """Accept the requests, creating their targets."""
        await self.store.targets.numbers({each.target for each in requests}, create=True)
        return await self.store.deliveries.accept(requests)

    async def deliver(self, **changes: Any) -> str:
        """Accept one delivery; returns its id."""
        request = self.request(**changes)
        (answer,) = await self.accept(request)
        assert isinstance(answer, Accepted)
        return answer.id

    async def worker(self, name: str = "host:7", lease: float = 12.0) -> int:
        """A new worker that serves `mail`."""
        return await self.store.workers.register(name, lease, 100, ["mail"])

    async def target(self, name: str = "mail") -> int:
        """The target's number."""
        return (await self.store.targets.numbers([name], create=True))[name]

    async def claim_request(
        self,
        *,
        priority: int = 5,
        target: str = "mail",
        floor: datetime = LONG_AGO,
        quota: int = 99,
    ) -> ClaimRequest:
        """A request for lanes of one priority and target."""
        return ClaimRequest(priority, await self.target(target), floor, quota)

    async def claim(
        self, worker: int, slots: int = 99, requests: Sequence[ClaimRequest] = ()
    ) -> list[Claimed]:
        """Claim under a new token; by default, everything due for `mail` at priority 5."""
        self._claims += 1
        given = token(worker, self._claims)
        return await self.store.agenda.claim(given, slots, requests or [await self.claim_request()])

    async def claimed(self, worker: int | None = None, **changes: Any) -> Claimed:
        """Store one delivery and claim it."""
        id = await self.deliver(**changes)
        requests = [await self.claim_request(priority=changes.get("priority", 5))]
        found = await self.claim(worker or await self.worker(), 99, requests)
        return next(each for each in found if each.id == id)

    async def settle(self, *settlements: Settlement) -> set[Lane]:
        """Write the outcomes."""
        return await self.store.agenda.settle(settlements)

    async def finished(self, verdict: Verdict = Verdict.COMPLETED, **changes: Any) -> str:
        """A delivery that was claimed and settled."""
        claimed = await self.claimed(**changes)
        assert await self.settle(settlement(claimed, verdict, self.clock.now()))
        return claimed.id

    async def sql(self, text: str) -> list[Row]:
        """Run a statement directly; tables are `duly.name` on both stores."""
        database = self.store.database
        if isinstance(database, Postgres):
            async with database.shared() as connection:
                return [dict(row) for row in await connection.fetch(text)]
        return await _sqlite(database, text.replace("duly.", "duly_"))

    async def ledger(self, id: str) -> Row:
        """Every column of a delivery, in the same form on both stores."""
        (row,) = await self.sql(f"select * from duly.deliveries where id = '{id}'")
        return _plain({name: row[name] for name in row if name != "number"})

    async def lane(self, id: str) -> Row | None:
        """Every column of a delivery's lane except its ids; None without a lane."""
        rows = await self.sql(f"select * from duly.agenda where delivery = {self.agenda_id(id)}")
        if not rows:
            return None
        assert rows[0]["lane"] == rows[0]["delivery"]
        assert {rows[0][name] for name in STREAM_COLUMNS} == {None}, (
            "a single delivery's lane has no stream columns"
        )
        return _plain(
            {
                name: rows[0][name]
                for name in rows[0]
                if name not in ("lane", "delivery", *STREAM_COLUMNS)
            }
        )

    async def record_claim(self, token: int) -> None:
        """Record which lanes the token holds, as a claim does."""
        if isinstance(self.store.database, Postgres):
            await self.sql(
                f"insert into duly.claims select {token}, array_agg(lane) from duly.agenda"
                f" where token = {token} on conflict (token) do update set lanes = excluded.lanes"
            )

    def agenda_id(self, id: str) -> str:
        """SQL for the delivery's id in the agenda."""
        if isinstance(self.store.database, Postgres):
            return f"'{id}'"
        return f"(select number from duly.deliveries where id = '{id}')"

    async def history(self, id: str) -> list[Row]:
        """Every row of a delivery's history except the last attempt, which is in the ledger."""
        rows = await self.sql(
            f"select * from duly.attempts where delivery = '{id}' order by finished_at"
        )
        return [_plain(row) for row in rows]

    async def worker_row(self, worker: int) -> Row:
        """Every column of a worker."""
        (row,) = await self.sql(f"select * from duly.workers where id = {worker}")
        return _plain(row)

    async def count(self, table: str) -> int:
        """How many rows a table has."""
        rows = await self.sql(f"select count(*) as size from duly.{table}")
        size: int = rows[0]["size"]
        return size


async def open_probe(url: str, clock: VirtualClock, namespace: str = "default") -> StoreProbe:
    """Open the store at a URL."""
    store = store_at(url, namespace=namespace, clock=clock)
    await store.open()
    return StoreProbe(store, clock)


def settlement(claimed: Claimed, verdict: Verdict, now: datetime, **changes: Any) -> Settlement:
    """A settlement in which every fact differs from every other."""
    spends = verdict in (Verdict.COMPLETED, Verdict.RETRY, Verdict.DEAD)
    facts: Row = {
        "lane": claimed.lane,
        "token": claimed.token,
        "delivery": claimed.id,
        "verdict": verdict,
        "attempt": claimed.attempt + spends,
        "started_us": microseconds(now) + 1_000_001,
        "finished_us": microseconds(now) + 2_000_002,
        "priority": claimed.priority,
        "wait": 90.5 if verdict is Verdict.RETRY else None,
        "reason": None if verdict is Verdict.COMPLETED else f"the reason of {verdict}",
        "error": None if verdict is Verdict.COMPLETED else f"the error of {verdict}",
        "answer": None if verdict is Verdict.COMPLETED else f'"the answer of {verdict}"',
        "traceback": None if verdict is Verdict.COMPLETED else f"the traceback of {verdict}",
        "exception": None if verdict is Verdict.COMPLETED else f"the class of {verdict}",
        "target": claimed.target,
        "unique_key": claimed.unique_key,
    }
    return Settlement(**facts | changes)


async def _sqlite(database: Sqlite, text: str) -> list[Row]:
    def run(connection: Any) -> list[Row]:
        cursor, rows = connection.cursor(), []
        for row in cursor.execute(text):
            rows.append(dict(zip([each[0] for each in cursor.get_description()], row, strict=True)))
        return rows

    rows: list[Row] = await database.write(run)
    return rows


def _plain(row: Row) -> Row:
    return {name: _value(name, value) for name, value in row.items()}


def _value(name: str, value: Any) -> Any:
    if name.endswith("_at") and isinstance(value, int):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    if name in ("tags", "handlers", "schedules", "namespaces") and value is not None:
        return json.loads(value)
    return str(value) if isinstance(value, UUID) else value
