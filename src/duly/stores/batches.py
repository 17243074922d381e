"""Batches: opened, read, closed, and finished together with their completion."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from duly.domain.batches import (
    MemberCounts,
    MemberSlice,
    decode_completion,
    encode_completion,
    no_batch,
    payload_with,
)
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.errors import Conflict
from duly.failpoints import hit
from duly.ports import Finish, UnfinishedBatch
from duly.records.batch import Batch, BatchOutcome, BatchState
from duly.stores.access.audit import note
from duly.stores.database import Database, NamedRow, Session
from duly.stores.deliveries.ledger import Deliveries
from duly.stores.deliveries.maintenance import BEGINNING, END

COUNTED = 100_000
"""The members that are counted when one batch is read; of more, the stored counts are shown."""
COUNTED_IN_LISTS = 1000
PAGES = {
    None: "batches.page",
    BatchState.FINISHED: "batches.page_finished",
    BatchState.CANCELLED: "batches.page_cancelled",
}


class Batches:
    """The batches of one namespace; unfinished ones are found in all that are served."""

    def __init__(
        self,
        database: Database,
        namespace: str,
        deliveries: Deliveries,
        served: Sequence[str] | None,
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._deliveries = deliveries
        self._served = None if served is None else list(served)

    async def open(
        self, id: str, name: str | None, completion: PreparedDelivery, actor: str | None
    ) -> Batch:
        """Open a batch; one with the same id is returned as it is."""
        async with self._database.together() as session:
            opened = await session.fetch(
                "batches.open",
                id=id,
                namespace=self._namespace,
                name=name,
                completion=encode_completion(completion),
                address=completion.address,
            )
            if opened and actor is not None:
                detail = {"name": name, "then": completion.target}
                await note(session, self._namespace, actor, "batch.opened", id, detail)
        return await self.get(id)

    async def get(self, id: str) -> Batch:
        """One batch, or NotFound."""
        return (await self._with_progress([await self._row(id)], COUNTED))[0]

    async def _row(self, id: str) -> NamedRow:
        rows = await self._database.fetch_named("batches.get", id=id, namespace=self._namespace)
        if not rows:
            raise no_batch(id)
        return rows[0]

    async def page(self, state: BatchState | None, before: str | None, limit: int) -> list[Batch]:
        """A page of batches, newest first."""
        parameters = {"namespace": self._namespace, "before": before or END, "limit": limit}
        if state in (BatchState.OPEN, BatchState.CLOSED):
            rows = await self._database.fetch_named(
                "batches.page_unfinished", is_open=state is BatchState.OPEN, **parameters
            )
        else:
            rows = await self._database.fetch_named(PAGES[state], **parameters)
        return await self._with_progress(rows, COUNTED_IN_LISTS)

    async def _with_progress(self, rows: Sequence[NamedRow], most: int) -> list[Batch]:
        """The batches, with current counts if they have at most `most` members."""
        unfinished = [row["id"] for row in rows if row["finished_at"] is None]
        held: dict[str, int] = {}
        if unfinished:
            found = await self._database.fetch_named("batches.processing", ids=unfinished)
            held = {row["id"]: row["count"] for row in found}
        counted = {id: await self.survey(id, None, most) for id in unfinished}
        return [_batch_of(row, counted.get(row["id"]), held.get(row["id"], 0)) for row in rows]

    async def close(self, id: str, actor: str | None) -> Batch:
        """Take no more members; waits for transactions that add one."""
        await self._end("close", id, actor)
        return await self.get(id)

    async def cancel(self, id: str, actor: str | None) -> Batch:
        """Close it, and send no completion; Conflict if it is finished."""
        await self._end("cancel", id, actor)
        batch = await self.get(id)
        if batch.state is not BatchState.CANCELLED:
            raise Conflict(
                f"batch {id} is {batch.state}; only an unfinished batch can be cancelled"
            )
        return batch

    async def _end(self, verb: str, id: str, actor: str | None) -> None:
        async with self._database.together() as session:
            changed = await session.fetch(f"batches.{verb}", id=id, namespace=self._namespace)
            if changed and actor is not None:
                action = "batch.closed" if verb == "close" else "batch.cancelled"
                await note(session, self._namespace, actor, action, id)

    async def unfinished(self, after: tuple[str, str], limit: int) -> Sequence[UnfinishedBatch]:
        """Batches of the served namespaces, after a namespace and an id."""
        rows = await self._database.fetch_named(
            "batches.unfinished",
            after_namespace=after[0],
            after=after[1] or BEGINNING,
            served=self._served,
            limit=limit,
        )
        return [UnfinishedBatch(**row) for row in rows]

    async def survey(self, id: str, after: str | None, limit: int) -> MemberSlice:
        """Count at most `limit` members by state, those that follow `after` by their ids."""
        rows = await self._database.fetch_named(
            "batches.survey", "plan", id=id, after=after or BEGINNING, limit=limit
        )
        row = dict(rows[0])
        last = row.pop("last")
        counts = MemberCounts(**row)
        return MemberSlice(counts, last if counts.members == limit else None)

    async def cancel_waiting(
        self, id: str, after: str | None, limit: int
    ) -> tuple[int, str | None]:
        """Cancel waiting members among the next that have not ended; those that run stay."""
        rows = await self._database.fetch_named(
            "batches.pending", "plan", id=id, after=after or BEGINNING, limit=limit
        )
        alone = [row["id"] for row in rows if not row["in_stream"]]
        done = 0
        if alone:
            done = len(await self._database.fetch("batches.cancel_waiting", ids=alone))
        for row in rows:
            if row["in_stream"]:
                with contextlib.suppress(Conflict):  # it runs, or has ended
                    await self._deliveries.cancel(row["id"], running=False)
                    done += 1
        return done, rows[-1]["id"] if len(rows) == limit else None

    async def keep_counts(self, id: str, counts: MemberCounts) -> None:
        """Store what was counted, unless it is finished or a transaction adds a member now."""
        await self._database.fetch("batches.count", id=id, **msgspec.structs.asdict(counts))

    async def finish(self, id: str, counts: MemberCounts, completion_id: str) -> Finish:
        """Mark a closed batch as finished, and store its completion, in one transaction.

        Members that are completed or cancelled stay so. Only a dead letter can change: if there are
        as many as were counted, none of the members is pending.
        """
        await hit("finish.before")
        async with self._database.together() as session:
            rows = await session.fetch_named("batches.lock", id=id, namespace=self._namespace)
            if not rows:
                return Finish.NOT_NOW
            if rows[0]["dead_now"] != counts.dead:
                return Finish.CHANGED
            result = await self._finish(session, rows[0], counts, completion_id)
            await hit("finish.middle")
        await hit("finish.after")
        return result

    async def _finish(
        self, session: Session, row: NamedRow, counts: MemberCounts, completion_id: str
    ) -> Finish:
        delivery, problem = None, None
        if row["cancelled_at"] is None:
            completion = _completion(row, counts, completion_id)
            try:
                delivery = (await self._deliveries.accept_within(session, completion)).id
            except Conflict as error:
                problem = str(error)
        await session.fetch(
            "batches.finish",
            id=row["id"],
            finished_at=row["now_at"],
            completed=counts.completed,
            dead=counts.dead,
            cancelled=counts.cancelled,
            delivery=delivery,
            problem=problem,
        )
        return Finish.DONE if problem is None else Finish.UNSENT

    async def prune(self, kept_for: timedelta, batch: int) -> int:
        """Remove finished batches without members; returns how many."""
        rows = await self._database.fetch(
            "batches.prune",
            namespace=self._namespace,
            kept_for=kept_for.total_seconds(),
            limit=batch,
        )
        return len(rows)


def _completion(row: NamedRow, counts: MemberCounts, id: str) -> PreparedDelivery:
    completion = decode_completion(row["completion"], row["address"])
    outcome = BatchOutcome(
        id=row["id"],
        name=row["name"],
        members=counts.members,
        completed=counts.completed,
        dead=counts.dead,
        cancelled=counts.cancelled,
        opened_at=row["opened_at"],
        closed_at=row["closed_at"],
        finished_at=row["now_at"],
    )
    payload = payload_with(completion.payload, outcome)
    return msgspec.structs.replace(completion, id=id, payload=payload)


def _batch_of(row: NamedRow, counted: MemberSlice | None, processing: int) -> Batch:
    is_current = counted is not None and counted.last is None
    counts = counted.counts if counted is not None and is_current else _stored(row)
    if counted is not None and not is_current and row["counted_at"] is None:
        # A large batch that no worker has counted yet: at least this many.
        counts = counted.counts
    processing = min(processing, counts.pending)
    return Batch(
        id=row["id"],
        name=row["name"],
        state=_state(row),
        then=decode_completion(row["completion"], None).target,
        members=counts.members,
        waiting=counts.pending - processing,
        processing=processing,
        completed=counts.completed,
        dead=counts.dead,
        cancelled=counts.cancelled,
        opened_at=row["opened_at"],
        closed_at=row["closed_at"],
        cancelled_at=row["cancelled_at"],
        finished_at=row["finished_at"],
        counted_at=None if is_current else row["counted_at"],
        completion=row["delivery"],
        problem=row["problem"],
    )


def _stored(row: NamedRow) -> MemberCounts:
    return MemberCounts(row["pending"], row["completed"], row["dead"], row["cancelled"])


def _state(row: Any) -> BatchState:
    if row["cancelled_at"] is not None:
        return BatchState.CANCELLED
    if row["finished_at"] is not None:
        return BatchState.FINISHED
    return BatchState.OPEN if row["closed_at"] is None else BatchState.CLOSED
