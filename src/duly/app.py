"""App: the object people hold. It takes deliveries in and runs them; here the graph is wired."""

from __future__ import annotations

import os
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Self, TypeVar, Unpack, overload

from duly.domain import checks
from duly.domain.checks import DEFAULT_PRIORITY
from duly.domain.deliveries.delivery import Accepted, Attempt, Delivery
from duly.domain.deliveries.retry import DEFAULT, WEBHOOK, RetryPlan
from duly.domain.deliveries.steps import Step
from duly.domain.monitoring.failure_stats import DAY, FailureStats
from duly.domain.schedules.options import Keyworded
from duly.domain.streams.policy import OnFailure
from duly.domain.time.rules import Rule
from duly.errors import DulyError
from duly.failpoints import arm_from
from duly.ports import Chance, Clock, Message, Store, Transaction
from duly.services.deliveries.deliveries import Page, Wanted, listed, page
from duly.services.deliveries.intake import Item, Options, Target
from duly.services.schedules import Declaration, Declared
from duly.settings import Keywords, load
from duly.stores.postgres.connections import Connect
from duly.system import (
    SystemChance,
    SystemClock,
    Threads,
    is_own_address,
    is_resolver_trouble,
    open_socket,
)
from duly.telemetry import Telemetry
from duly.transports.combined import Routes
from duly.transports.handlers.functions import own_name
from duly.transports.handlers.registry import Handlers
from duly.transports.webhooks.egress import Guard
from duly.transports.webhooks.endpoint_cache import Book
from duly.transports.webhooks.sender import Webhooks
from duly.vault import Vault, sealing_keys
from duly.watch import Watch
from duly.wiring import signing_keys, store_of
from duly.working import Working

Function = TypeVar("Function", bound=Callable[..., Any])


class App(Working):
    """A store, the handlers of this process, and the engine that brings them together.

    `database` is an address; a caller on PostgreSQL may bring its own asyncpg `pool`, or a
    `connect` function, instead. Other settings go by their names, as in `App(concurrency=10)`.
    `routes` are your own, which `duly serve` answers beside its own: routes of Starlette's, or any
    ASGI application, behind the same authentication.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        pool: Any = None,
        connect: Connect | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
        environment: Mapping[str, str] = os.environ,
        **settings: Unpack[Keywords],
    ) -> None:
        super().__init__()
        arm_from(environment)
        self.settings = load({"database": database, **settings}, environment)
        self.clock = clock or SystemClock()
        self.chance = chance or SystemChance()
        self.telemetry = Telemetry(self.clock.monotonic)
        plan = self.settings.plan
        self.handlers = Handlers(Threads().run, self.telemetry.emit, plan or DEFAULT)
        self.store: Store = store_of(self.settings, self.clock, pool, connect, self.telemetry.emit)
        self.vault = Vault(sealing_keys(self.settings.secret_key), self.chance.bytes)
        self.book = Book(
            lambda namespace: self.store.within(namespace).endpoints,
            self.clock,
            self.vault.open,
            self.telemetry.emit,
            self.settings.namespace,
            plan or WEBHOOK,
        )
        self.webhooks = Webhooks(
            self.clock,
            Guard(self.settings.egress_allow.replace(",", " ").split(), is_own_address),
            is_resolver_trouble,
            open_socket,
            self.book,
            signing_keys(self.settings.webhook_secret),
        )
        self.transports = Routes(self.handlers, self.webhooks)
        self.routes: list[Any] = []
        self._furnish(self.handlers.serves, self.plan)
        self.webhooks.carried = self.tracing.carried

    def _furnish(
        self, handlers: Callable[[], Sequence[str]], plan: Callable[[str], RetryPlan]
    ) -> None:
        super()._furnish(handlers, plan)
        self.watch = Watch(self.store, self.clock, self.telemetry, self.settings, self.deliver)
        self.alerts, self.series = self.watch.alerts, self.watch.series
        self._acceptor.on_answered = self.watch.bookkeeper.write_if_due

    def within(self, namespace: str) -> Self:
        """This app in another namespace of its store: it takes in, shows and moves, runs nothing.

        It is open as long as this one. If this process works for the namespace, it has the handlers
        of this process; otherwise only the store can tell which there are.
        """
        view = super().within(namespace)
        self.watch.bookkeeper.others.add(view.watch.bookkeeper)
        return view

    @overload
    def handler(self, function: Function, /) -> Function: ...

    @overload
    def handler(
        self,
        name: str | None = None,
        *,
        retry: RetryPlan | None = None,
        timeout: float | None = None,
    ) -> Callable[[Function], Function]: ...

    def handler(
        self, name: Any = None, *, retry: RetryPlan | None = None, timeout: float | None = None
    ) -> Any:
        """Register a function as the target `name`; it is called with the delivery.

        `retry` is the plan for failed attempts, `timeout` the seconds an attempt may take
        (300 by default). Plain functions run in threads. Without a name, as with `@app.handler`
        alone, the target is the function's module and name: `shop.weekly`.
        """

        def register(function: Function) -> Function:
            self.handlers.add(name or own_name(function), function, retry, timeout)
            return function

        if callable(name):
            function, name = name, None
            return register(function)
        if name is not None:
            checks.checked_name("handler", name)
        return register

    def asgi(self, *, authorize: Callable[[Any], Awaitable[str | None]] | None = None) -> Any:
        """The HTTP API as an ASGI application, to be mounted at any path of another one.

        It has no lifespan: open the app in that of the application around it. Callers need a key,
        or `authorize(scope)` returns what they may do: "read", "operate", "admin" or None.
        """
        # By name: the app is below what serves it.
        application = import_module("duly.surfaces.http.application")
        return application.api(self, authorize)

    def expect(self, *names: str) -> None:
        """Say that these handlers live in another process, which may not have started yet."""
        self._intake.expect(names)

    @overload
    def schedule(
        self,
        name: str,
        /,
        rule: Rule,
        target: Target,
        payload: Any = None,
        **options: Unpack[Declaration],
    ) -> Coroutine[Any, Any, Declared]: ...

    @overload
    def schedule(
        self,
        rule: Rule,
        /,
        *,
        name: str | None = None,
        payload: Any = None,
        **options: Unpack[Keyworded],
    ) -> Callable[[Function], Function]: ...

    def schedule(self, first: Any, /, *rest: Any, **options: Any) -> Any:
        """Declare a schedule: by name at run time, or around a handler.

        `await app.schedule("monday", duly.cron("0 9 * * MON"), "report", {"team": 7})` creates or
        changes it; the same again changes nothing. `@app.schedule(duly.cron("0 9 * * *"))` on a
        handler declares it whenever the app opens. Options: catch_up, window, cap, overlap, start,
        end, max_runs, jitter, expires_after, retry, priority, stream, tags; and `connection`, in
        whose transaction it is declared, as for `deliver`, if that is one of duly's own.
        """
        if isinstance(first, str):
            return self.schedules.declare(first, *rest, **options)
        return self.schedules.around(first, *rest, **options)

    async def deliver(
        self,
        target: Target,
        payload: Any = None,
        *,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        key: str | None = None,
        priority: int = DEFAULT_PRIORITY,
        expires_at: datetime | None = None,
        tags: Iterable[str] = (),
        retry: RetryPlan | None = None,
        stream: str | None = None,
        on_failure: OnFailure | str | None = None,
        id: str | None = None,
        connection: Any = None,
    ) -> Accepted:
        """Accept one delivery; when this returns it is on disk.

        It is due at once, `at` a moment, or `after` some seconds. The same `key` gives the same
        delivery again, or a Conflict if target or payload differ. Those of one `stream` run in
        the order in which they were accepted, one at a time over all workers; `on_failure` says
        whether a failed one blocks those behind it (`block`) or lets them go on (`release`).
        With an `id`, a UUID of version 7, the same call again stores nothing more.

        With a `connection` it is accepted in the transaction that this has open, and exists if and
        only if that is committed. It may be `app.transaction()`, `delivery.transaction`, a message,
        and on PostgreSQL a connection of asyncpg, psycopg, psycopg2, SQLAlchemy or Django.
        """
        request = self._intake.request(
            target,
            payload,
            at,
            after,
            key,
            priority,
            expires_at,
            tags,
            retry,
            stream,
            on_failure,
            id,
        )
        if connection is not None:
            return await self._outbox.accept(connection, request)
        await self._intake.know([request.target])
        return await self.tracing.accept(request.target, lambda: self._acceptor.accept(request))

    def deliver_within(
        self, connection: Any, target: Target, payload: Any = None, **options: Unpack[Options]
    ) -> Accepted:
        """Accept one delivery in the transaction of a plain connection, without an event loop.

        For psycopg, psycopg2, SQLAlchemy and Django on PostgreSQL. The app need not be open: all
        it needs goes through the connection. The options are deliver's.
        """
        request = self._intake.request(target, payload, **options)
        return self._outbox.accept_now(connection, request)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction of the store, committed at the end of the block, undone if it raises.

        `async with app.transaction() as tx:` has `tx.execute(sql, *parameters)` and `tx.fetch` for
        your own tables (`?` on SQLite, `$1` on PostgreSQL, where `tx.connection` is asyncpg's),
        and `app.deliver(..., connection=tx)`. On SQLite nobody else writes meanwhile.
        """
        return self.store.transaction()

    def receive(
        self, message_id: str, consumer: str, *, connection: Any = None
    ) -> AbstractAsyncContextManager[Message]:
        """A message that the consumer handles once, in a transaction that the block commits.

        `async with app.receive(id, "billing") as message:` with `message.is_new`,
        `message.keep(result)`, and for a duplicate the first `message.result`. In between it is
        also what `app.transaction()` gives. With `connection`, one of duly's own transactions.
        """
        return self._outbox.receive(connection, message_id, consumer)

    async def deliver_many(self, items: Iterable[Item]) -> Sequence[Accepted]:
        """Accept many deliveries in one transaction: all of them or none.

        An item is `(target, payload)`, or a mapping of deliver's arguments.
        """
        # Made known first: on SQLite nothing else can be written while the transaction is open.
        await self._intake.know_handlers()
        return await self._acceptor.accept_all(self._intake.chunks(items))

    async def deliver_each(
        self, items: Iterable[Item | DulyError]
    ) -> Sequence[Accepted | DulyError]:
        """Accept many deliveries, each for itself: what is wrong with one is in its place."""
        answers: list[Accepted | DulyError] = []
        async for piece in self._intake.each(items):
            answers += await self._acceptor.accept_each(piece)
        return answers

    async def get(self, id: str) -> Delivery:
        """One delivery with all its facts, or NotFound."""
        return await self.store.deliveries.get(checks.checked_id(id))

    async def list(
        self, *, before: str | None = None, limit: int = 50, **wanted: Unpack[Wanted]
    ) -> Sequence[Delivery]:
        """Deliveries, newest first; `before` is the last id of the page before.

        A target is a handler's name, `endpoint:` and a name, or a URL, which stands for its host.
        """
        return await listed(self.store, wanted, before, limit)

    async def page(
        self, *, before: str | None = None, limit: int = 50, **wanted: Unpack[Wanted]
    ) -> Page:
        """As `list`, in time that does not grow with the ledger; go on from its `next`."""
        return await page(self.store, wanted, before, limit)

    async def attempts(self, id: str) -> Sequence[Attempt]:
        """What happened to a delivery, oldest first."""
        return await self.store.deliveries.attempts(checks.checked_id(id))

    async def steps(self, id: str) -> Sequence[Step]:
        """The steps of a delivery that are done, in their order."""
        return await self.store.steps.load((await self.get(id)).id)

    async def cancel(self, id: str) -> Delivery:
        """Cancel a pending delivery; one that is cancelled already is returned as it is.

        Conflict when it is neither.
        """
        return await self.store.deliveries.cancel(checks.checked_id(id), self.actor)

    async def retry(self, id: str) -> Delivery:
        """Try a dead letter again, with all its attempts, or a waiting delivery now."""
        delivery = await self.store.deliveries.retry(checks.checked_id(id), self.actor)
        self.store.wakeups.hint()
        return delivery

    async def stats(self, since: datetime | timedelta | float = DAY) -> FailureStats:
        """Figures of failure since a moment, or for so long: attempts, reasons, retries, poison."""
        return await self.store.failure_stats.stats(since)
