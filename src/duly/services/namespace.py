"""The services of one namespace for one actor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from duly.domain.deliveries import retry as retries
from duly.domain.deliveries.outcomes import Outcome
from duly.domain.endpoints.endpoint import StoredEndpoint
from duly.domain.time.rules import Rule
from duly.errors import DulyError
from duly.ports import Chance, Clock, Message, Store, Transaction
from duly.records.batch import Then
from duly.records.delivery import Accepted, DeliveryKeywords
from duly.records.retry_plan import RetryPlan
from duly.records.schedule import DeclaredSchedule
from duly.records.target import HandlerTarget, Target, Webhook
from duly.services.access.audit import Audit
from duly.services.access.idempotency import IdempotentRequests
from duly.services.access.keys import Keys
from duly.services.batches import Batches, OpenBatch
from duly.services.dead_letters import DeadLetters
from duly.services.deliveries.acceptor import Acceptor, Answer
from duly.services.deliveries.deliveries import Deliveries
from duly.services.deliveries.ends import Ends
from duly.services.deliveries.handles import Handle, handle_of
from duly.services.deliveries.intake import Intake, Item
from duly.services.deliveries.transactions import Outbox
from duly.services.endpoints import Endpoints, Vault
from duly.services.limits import Limits
from duly.services.monitoring.alerts import Alerts
from duly.services.monitoring.monitoring import Monitoring
from duly.services.recovery import Recovery
from duly.services.schedules.calendars import Calendars
from duly.services.schedules.program import Program
from duly.services.schedules.schedules import Declaration, Schedules
from duly.services.streams import Streams
from duly.services.transfer.exporting import Exporting
from duly.services.transfer.importing import Importing
from duly.services.workers import Workers
from duly.settings import Settings

PROGRAM = "python"
"""The actor in the audit trail when a program acts for itself."""

Given = ParamSpec("Given")
Found = TypeVar("Found")
AcceptTraced = Callable[[str, Callable[[], Awaitable[Accepted]]], Awaitable[Accepted]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The parts of a namespace that all its actors share.

    They share commits (`acceptor`), known targets (`intake`) and reads of the status
    (`monitoring`), and a request with an idempotency key runs once for all actors.
    """

    settings: Settings
    clock: Clock
    chance: Chance
    store: Store
    vault: Vault
    check_webhook: Callable[[Webhook], None]
    try_endpoint: Callable[[StoredEndpoint, str, bytes], Awaitable[Outcome]]
    plan: Callable[[str], RetryPlan]
    accept_traced: AcceptTraced
    is_traced: Callable[[], bool]
    intake: Intake
    acceptor: Acceptor
    outbox: Outbox
    requests: IdempotentRequests
    monitoring: Monitoring
    ends: Ends
    program: Program
    on_batch_closed: Callable[[], None]


def _short(
    method: Callable[Concatenate[Deliveries, Given], Awaitable[Found]],
) -> Callable[Concatenate[Namespace, Given], Coroutine[Any, Any, Found]]:
    """The short form of a method of `deliveries`."""

    @wraps(method)
    async def short(self: Namespace, /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
        return await method(self.deliveries, *args, **kwargs)

    return short


class Namespace:
    """The services of one namespace for one actor.

    `actor` is named in the audit trail. Without one a program acts for itself: its changes are
    recorded as `python`, and deliveries that it cancels or retries leave no entry.
    """

    def __init__(self, shared: Shared, actor: str | None = None) -> None:
        name, store, limit = actor or PROGRAM, shared.store, shared.settings.payload_limit
        clock, chance, vault, intake = shared.clock, shared.chance, shared.vault, shared.intake
        self.actor = actor
        self.settings, self.clock, self.chance = shared.settings, clock, chance
        self.store, self.vault, self.plan = store, vault, shared.plan
        # Somebody who edits a schedule by hand does not take it from the code.
        program = shared.program if actor is None else None
        self.schedules = Schedules(
            store, clock, chance, intake.check, limit, name, intake.addressed, program
        )
        self.calendars = Calendars(store, clock, chance, name)
        self.dead_letters = DeadLetters(store, clock, shared.plan, limit, name)
        self.recovery = Recovery(store, shared.plan, shared.settings.recovery_policies, name)
        self.endpoints = Endpoints(
            store,
            clock,
            chance,
            vault,
            self.dead_letters,
            shared.check_webhook,
            shared.try_endpoint,
            self._webhook_plan(),
            name,
        )
        plan = self._webhook_plan()
        self.deliveries = Deliveries(
            store,
            self.endpoints.problem,
            plan,
            shared.monitoring.namespace_status,
            shared.ends,
            clock,
            actor,
        )
        self.limits = Limits(store, clock)
        self.streams = Streams(store, name)
        self.batches = Batches(
            store, intake, chance, self.deliver, limit, shared.on_batch_closed, actor
        )
        self.workers = Workers(store, name)
        self.keys = Keys(store, clock, chance, name)
        self.alerts = Alerts(store)
        self.audit = Audit(store)
        self.stats = shared.monitoring
        self.series = shared.monitoring.series
        self.exporting = Exporting(store, clock, vault, name)
        self.importing = Importing(store, vault, limit, name)
        self.requests = shared.requests
        self.program = shared.program
        self._shared = shared

    get = _short(Deliveries.get)
    page = _short(Deliveries.page)
    attempts = _short(Deliveries.attempts)
    steps = _short(Deliveries.steps)
    wait = _short(Deliveries.wait)
    cancel = _short(Deliveries.cancel)
    retry = _short(Deliveries.retry)

    def acting_as(self, actor: str) -> Namespace:
        """The same namespace, with this `actor` in the audit trail."""
        return Namespace(self._shared, actor)

    def expect(self, *names: str | HandlerTarget) -> None:
        """Accept deliveries for handlers of another process, which may not have started yet."""
        self._shared.intake.expect(names)

    async def deliver(
        self,
        target: Target,
        payload: Any = None,
        *,
        id: str | None = None,
        connection: Any = None,
        **options: Unpack[DeliveryKeywords],
    ) -> Handle[Any]:
        """Accept one delivery; when this returns it is on disk.

        It is due at once, `at` a moment, or `after` some seconds. The same `key` returns the same
        delivery again, or raises Conflict if target or payload differ. With `unique="pending"` it
        only means that one delivery with it waits for the target at a time: while one does, this
        one is dropped, or with `on_duplicate` replaces (`replace`) or postpones (`postpone`) that
        one, at most until `latest` seconds after its acceptance. The deliveries of a `stream`
        run in the order of their acceptance, one at a time over all workers; `on_failure` decides
        whether a failed one blocks those behind it (`block`) or lets them proceed (`release`).
        With an `id`, a UUID of version 7, a repeated call stores nothing more. With the id of an
        open `batch` it becomes a member of that; Conflict if the batch is closed.

        With a `connection` it is accepted in the open transaction of that connection, and exists if
        and only if the transaction commits. Give `app.transaction()`, `delivery.transaction`, a
        message, or on PostgreSQL a connection of asyncpg, psycopg, psycopg2, SQLAlchemy or Django.

        The end can be awaited: `await handle.wait()`, or `await handle.result()` for what the
        handler returned.
        """
        shared = self._shared
        request = shared.intake.request(target, payload, id, **options)
        if request.is_limited:
            await shared.intake.check_limits([request])
        if connection is not None:
            accepted = await shared.outbox.accept(connection, request)
        else:
            await shared.intake.know([request.target])
            accepted = await shared.accept_traced(
                request.target, lambda: shared.acceptor.accept(request)
            )
        return handle_of(accepted, self.deliveries)

    def put(
        self,
        answer: Answer,
        target: Target,
        payload: Any = None,
        *,
        id: str | None = None,
        **options: Unpack[DeliveryKeywords],
    ) -> bool:
        """Accept one delivery with the next batch, without a task that waits for it.

        False, and nothing is done, if something has to be awaited first; then call `deliver`.
        """
        shared = self._shared
        is_own = type(self).deliver is Namespace.deliver
        if not is_own or shared.is_traced() or options.get("limit_key") is not None:
            return False
        if not shared.intake.is_sure(target):
            return False
        # Not before: `deliver` will read what is given, and an iterator can be read once.
        request = shared.intake.request(target, payload, id, **options)
        shared.acceptor.put(request, answer)
        return True

    def deliver_within(
        self,
        connection: Any,
        target: Target,
        payload: Any = None,
        *,
        id: str | None = None,
        **options: Unpack[DeliveryKeywords],
    ) -> Accepted:
        """Accept one delivery in the transaction of a plain connection, without an event loop.

        For psycopg, psycopg2, SQLAlchemy and Django on PostgreSQL. The app need not be open: only
        the connection is used. The options are those of `deliver`.
        """
        request = self._shared.intake.request(target, payload, id, **options)
        return self._shared.outbox.accept_now(connection, request)

    async def deliver_many(
        self, items: Iterable[Item], *, batch: str | None = None
    ) -> Sequence[Accepted]:
        """Accept many deliveries in one transaction: all of them or none.

        An item is `(target, payload)`, or a mapping of the arguments of `deliver`. With a `batch`,
        all of them are its members.
        """
        intake = self._shared.intake
        # Handlers are added first: SQLite has one writer, and the transaction will hold it.
        await intake.know_handlers()
        return await self._shared.acceptor.accept_all(intake.chunks(items, batch))

    def batch(self, then: Then, *, name: str | None = None) -> OpenBatch:
        """A batch for a block of code: `async with app.batch(then=("report", {})) as batch:`.

        In the block, `batch.deliver(...)` and `batch.deliver_many(...)` add members. The end of the
        block closes the batch. When all members have ended, `then` is delivered once, with the
        counts as `batch` in its payload: a target, `(target, payload)`, or a mapping of the
        arguments of `deliver`. If the block raises, the batch stays open; close or cancel it by its
        id.
        """
        return OpenBatch(self, then, name)

    async def deliver_each(
        self, items: Iterable[Item | DulyError]
    ) -> Sequence[Accepted | DulyError]:
        """Accept many deliveries independently; an error is returned in the place of its item."""
        answers: list[Accepted | DulyError] = []
        async for chunk in self._shared.intake.each(items):
            answers += await self._shared.acceptor.accept_each(chunk)
        return answers

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction of the store: committed at the end of the block, rolled back if it raises.

        `async with app.transaction() as tx:` has `tx.execute(sql, *parameters)` and `tx.fetch` for
        your own tables (`?` on SQLite, `$1` on PostgreSQL, where `tx.connection` is asyncpg's),
        and `app.deliver(..., connection=tx)`. On SQLite it blocks all other writes.
        """
        return self.store.transaction()

    def receive(
        self, message_id: str, consumer: str, *, connection: Any = None
    ) -> AbstractAsyncContextManager[Message]:
        """A message that the consumer handles once, in a transaction that the block commits.

        `async with app.receive(id, "billing") as message:` with `message.is_new`,
        `message.keep(result)`, and for a duplicate the first `message.result`. In the block it
        has the methods of `app.transaction()`. `connection` is an open transaction of duly.
        """
        return self._shared.outbox.receive(connection, message_id, consumer)

    async def schedule(
        self,
        name: str,
        /,
        rule: Rule,
        target: Target,
        payload: Any = None,
        **options: Unpack[Declaration],
    ) -> DeclaredSchedule:
        """Create or change a schedule: the short form of `schedules.declare`."""
        return await self.schedules.declare(name, rule, target, payload, **options)

    def _webhook_plan(self) -> RetryPlan:
        return self.settings.plan or retries.WEBHOOK

    # Last: the name hides the type.
    list = _short(Deliveries.list)
