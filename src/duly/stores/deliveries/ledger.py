"""The ledger: accepts deliveries, reads them, and cancels or retries single ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from duly.domain.dead_letters import refuse_given_up
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.domain.deliveries.states import FINISHED
from duly.domain.deliveries.unique import refuse_shut
from duly.domain.endpoints.endpoint import endpoint_name
from duly.domain.endpoints.sealed_addresses import SealedAddresses
from duly.errors import Conflict, NotFound
from duly.ports import Filter, Refusal, Retry
from duly.records.attempt import HistoryEntry
from duly.records.delivery import Accepted, Delivery, ExplainedDelivery, explained
from duly.records.state import State
from duly.stores import unique_keys
from duly.stores.access.audit import note
from duly.stores.database import Database, Row, Session
from duly.stores.deliveries.agenda import Agenda
from duly.stores.deliveries.batch_members import refusals
from duly.stores.deliveries.known import Known
from duly.stores.deliveries.pages import counts, page
from duly.stores.deliveries.requests import apart, columns_for, in_order, is_new, statement_for
from duly.stores.deliveries.revived import retry_one
from duly.stores.deliveries.rows import delivery_of, entry_of
from duly.stores.deliveries.running import Running
from duly.stores.deliveries.stuck import Service, service, why_blocking, why_held, why_left
from duly.stores.endpoints.endpoints import Endpoints
from duly.stores.endpoints.targets import Targets
from duly.stores.streams.members import Members, WriteAudit
from duly.stores.workers import Workers

CANCEL_TRIES = 3


class Deliveries:
    """The ledger of one namespace."""

    def __init__(
        self,
        database: Database,
        namespace: str,
        targets: Targets,
        agenda: Agenda,
        workers: Workers,
        endpoints: Endpoints,
        members: Members,
        addresses: SealedAddresses,
        running: Running,
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._targets = targets
        self._agenda = agenda
        self._workers = workers
        self._endpoints = endpoints
        self._members = members
        self._addresses = addresses
        self._running = running

    async def accept(self, requests: Sequence[PreparedDelivery]) -> list[Accepted | Refusal]:
        """Store each independently; safe to repeat with the same ids."""
        others, keyed = apart(requests)
        stored: list[Accepted | Refusal] = []
        if any(each.batch is not None for each in others):
            async with self._database.together() as session:
                stored = await self._accept(session, others)
        elif others:
            stored = await self._accept(self._database, others)
        if not keyed:
            return stored
        async with self._database.together() as session:
            stored_keyed = await self._accept_unique(session, keyed)
        return in_order([each.unique_key for each in requests], stored, stored_keyed)

    async def accept_all(self, chunks: AsyncIterable[Sequence[PreparedDelivery]]) -> list[Accepted]:
        """Store all or, if one conflicts, none; safe to repeat with the same ids.

        While the database writes one chunk, the next is prepared. Those with a unique key are
        stored at the end: all their keys are locked in one order, so that two callers never wait
        for each other.
        """
        accepted: list[Accepted | Refusal] = []
        keys: list[str | None] = []
        keyed: list[PreparedDelivery] = []
        async with self._database.together("batch") as session:
            writing: asyncio.Task[list[Accepted | Refusal]] | None = None
            try:
                async for chunk in chunks:
                    if writing is not None:
                        accepted.extend(_all_or_none(await writing))
                    others, more = apart(chunk)
                    keys.extend(each.unique_key for each in chunk)
                    keyed.extend(more)
                    writing = asyncio.create_task(self._accept_chunk(session, others))
                    await asyncio.wait([writing], timeout=0)
                if writing is not None:
                    accepted.extend(_all_or_none(await writing))
            finally:
                if writing is not None:
                    await asyncio.wait([writing])
            stored = await self._accept_unique(session, keyed) if keyed else []
            return _all_or_none(in_order(keys, accepted, stored))

    async def _accept_chunk(
        self, session: Session, requests: Sequence[PreparedDelivery]
    ) -> list[Accepted | Refusal]:
        if not requests:
            return []
        return await (self._accept_new if is_new(requests) else self._accept)(session, requests)

    async def accept_within(self, session: Session, request: PreparedDelivery) -> Accepted:
        """Store one in the caller's transaction, which a Conflict leaves unchanged."""
        accept = self._accept if request.unique_key is None else self._accept_unique
        (accepted,) = _all_or_none(await accept(session, [request]))
        return accepted

    async def _accept_unique(
        self, session: Session, requests: Sequence[PreparedDelivery]
    ) -> list[Accepted | Refusal]:
        names = {each.target for each in requests}
        numbers = await self._targets.numbers_within(session, names)
        return [*await unique_keys.accept(session, self._namespace, requests, numbers)]

    async def _accept(
        self, session: Session, requests: Sequence[PreparedDelivery]
    ) -> list[Accepted | Refusal]:
        names = {each.target for each in requests}
        numbers = await self._targets.numbers_within(session, names)
        refused = await refusals(session, self._namespace, requests)
        wanted = [each for each in requests if each.batch not in refused] if refused else requests
        if wanted:
            statement, columns = statement_for(wanted, numbers)
            stored, accepted_at = await self._store(session, statement, columns)
            if stored == len(requests):
                return [_new(each, accepted_at) for each in requests]
        existing = Known(await self._existing(session, requests), self._addresses)
        return [
            existing.answer_to(each, numbers[each.target], refused.get(each.batch))
            for each in requests
        ]

    async def _accept_new(
        self, session: Session, requests: Sequence[PreparedDelivery]
    ) -> list[Accepted | Refusal]:
        names = {each.target for each in requests}
        numbers = await self._targets.numbers_within(session, names)
        columns = columns_for(requests, numbers)
        del columns["key"]
        statement = "ledger.accept_new"
        if (batch := requests[0].batch) is not None:
            for refusal in (await refusals(session, self._namespace, requests)).values():
                raise refusal
            statement = "batches.accept_new"
        _, accepted_at = await self._store(session, statement, columns, in_batch=batch)
        return [_new(each, accepted_at) for each in requests]

    async def _store(
        self,
        session: Session,
        statement: str,
        columns: dict[str, Sequence[Any]],
        **parameters: Any,
    ) -> Row:
        rows = await session.fetch_batch(
            statement, columns=columns, namespace=self._namespace, **parameters
        )
        return rows[0]

    async def _existing(
        self, session: Session, requests: Sequence[PreparedDelivery]
    ) -> list[Sequence[Any]]:
        columns: dict[str, Sequence[Any]] = {
            "id": [each.id for each in requests],
            "key": [each.key for each in requests],
        }
        rows = await session.fetch_batch("ledger.known", columns=columns, namespace=self._namespace)
        return list(rows)

    async def get(self, id: str) -> Delivery:
        """One delivery, or NotFound."""
        rows = await self._database.fetch_named("ledger.get", id=id, namespace=self._namespace)
        if not rows:
            raise NotFound("delivery", id, "duly deliveries list shows what there is")
        return delivery_of(rows[0])

    async def unfinished(self, ids: Collection[str]) -> set[str]:
        """Those of these deliveries, of any namespace, that have not ended."""
        rows = await self._database.fetch_named("ledger.unfinished", ids=list(ids))
        return {row["id"] for row in rows}

    async def page(self, filter: Filter) -> tuple[list[Delivery], str | None]:
        """A page of deliveries, newest first, and the id to continue from, None at the end."""
        return await page(self._database, self._namespace, filter)

    async def counts(self, filter: Filter) -> tuple[dict[State, int], bool]:
        """How many match by state, and whether older ones were left out."""
        return await counts(self._database, self._namespace, filter)

    async def history(self, id: str) -> list[HistoryEntry]:
        """The history of one delivery, oldest first, or NotFound."""
        await self.get(id)
        rows = await self._database.fetch_named("ledger.attempts", id=id)
        return [entry_of(row) for row in rows]

    async def cancel(self, id: str, actor: str | None = None, *, running: bool = True) -> Delivery:
        """Cancel a pending delivery, or if `running`, ask for it while it runs; else Conflict.

        No change if it is cancelled already.
        """
        rule = "only a pending or running delivery can be cancelled"
        audit = self._audit(actor, "delivery.cancelled", id)
        for tries_left in reversed(range(CANCEL_TRIES)):
            try:
                return await self._move("cancel", id, rule, self._members.cancel, audit)
            except Conflict:
                delivery = await self.get(id)
                if delivery.state is State.CANCELLED:
                    return delivery
                if running and await self._running.ask(id, actor):
                    return await self.get(id)
                # It may have ended its attempt, and wait for the next one, between the two tries.
                if delivery.state in FINISHED or not tries_left:
                    raise
        raise AssertionError("it is returned or raised above")

    async def retry(self, id: str, actor: str | None = None) -> Delivery:
        """Make a dead letter pending again, or a waiting delivery due now; else Conflict."""
        rule = "only a dead or waiting delivery can be retried"
        audit = self._audit(actor, "delivery.retried", id)
        async with self._database.together() as session:
            await session.fetch(
                "dead_letters.wait", id=id, in_stream=False, namespace=self._namespace
            )
            moved = await retry_one(session, self._namespace, id, Retry(reset=True))
            if moved and audit is not None:
                await audit(session)
        if moved:
            return await self.get(id)
        return await self._move("hurry", id, rule, self._members.retry, audit)

    def _audit(self, actor: str | None, action: str, id: str) -> WriteAudit | None:
        """Returns a function that writes the audit entry, or None without an actor."""
        if actor is None:
            return None
        return lambda session: note(session, self._namespace, actor, action, id)

    async def _move(
        self,
        verb: str,
        id: str,
        rule: str,
        in_stream: Callable[[str, WriteAudit | None], Awaitable[bool]],
        audit: WriteAudit | None,
    ) -> Delivery:
        moved = await self._apply(f"ledger.{verb}", audit, id=id)
        delivery = await self.get(id)
        if not moved and delivery.position is not None:
            moved, delivery = await in_stream(id, audit), await self.get(id)
        if not moved:
            refuse_given_up(delivery, "cancelled" if verb == "cancel" else "retried")
            refuse_shut(delivery)
            raise Conflict(f"delivery {id} is {delivery.state}; {rule}")
        return delivery

    async def _apply(self, statement: str, audit: WriteAudit | None, **parameters: Any) -> bool:
        parameters["namespace"] = self._namespace
        if audit is None:
            return bool(await self._database.fetch(statement, "any", **parameters))
        async with self._database.together() as session:
            moved = bool(await session.fetch(statement, "any", **parameters))
            if moved:
                await audit(session)
        return moved

    async def late(self, grace: timedelta, limit: int) -> list[Delivery]:
        """Deliveries due for longer than `grace` and not held, oldest first."""
        return (await self._late(grace, limit))[:limit]

    async def _late(self, grace: timedelta, limit: int) -> list[Delivery]:
        # At most `limit` of each priority and target, so that one with a backlog hides no other.
        found: list[Delivery] = []
        for group in await self._agenda.look():
            rows = await self._database.fetch_named(
                "ledger.late",
                priority=group.priority,
                target=-group.target if group.turns else group.target,
                grace=grace.total_seconds(),
                limit=limit,
            )
            found.extend(map(delivery_of, rows))
        return sorted(found, key=lambda each: each.next_at or each.due_at)

    async def stuck(self, held_for: timedelta, limit: int) -> list[ExplainedDelivery]:
        """Deliveries that will not progress by themselves, each with the reason."""
        rows = await self._database.fetch_named(
            "ledger.held",
            namespace=self._namespace,
            held_for=held_for.total_seconds(),
            limit=limit,
        )
        late = await self._late(timedelta(), limit)
        serving = await self._service(late)
        stuck = [explained(each, why_held(each, serving)) for each in map(delivery_of, rows)]
        stuck += [explained(each, why_blocking(each)) for each in await self._blocking(limit)]
        stuck += [explained(each, why) for each in late if (why := why_left(each, serving))]
        return stuck[:limit]

    async def _blocking(self, limit: int) -> list[Delivery]:
        rows = await self._database.fetch_named(
            "ledger.blocking", namespace=self._namespace, limit=limit
        )
        return [delivery_of(row) for row in rows]

    async def _service(self, found: Sequence[Delivery]) -> Service:
        names = {name for each in found if (name := endpoint_name(each.target)) is not None}
        endpoints = await self._endpoints.some(names) if names else []
        return service(self._namespace, await self._workers.all(), endpoints)


def _all_or_none(answers: list[Accepted | Refusal]) -> list[Accepted]:
    for answer in answers:
        if not isinstance(answer, Accepted):
            raise answer
    return answers  # type: ignore[return-value]


def _new(request: PreparedDelivery, accepted_at: datetime) -> Accepted:
    due_at = request.due_at
    if due_at is None:
        due_at = accepted_at
        if request.after:
            due_at += timedelta(seconds=request.after)
    return Accepted(id=request.id, due_at=due_at)
