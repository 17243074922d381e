"""An App, and another namespace of its store, whose methods block."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self, Unpack

from duly.errors import DulyError
from duly.records.delivery import Accepted, DeliveryKeywords
from duly.records.target import Target
from duly.services.deliveries.intake import Item
from duly.services.monitoring.monitoring import Monitoring
from duly.services.namespace import Namespace
from duly.sync.blocking import blocking
from duly.sync.handles import SyncHandle, sync_handle_of
from duly.sync.home import Home, refuse_event_loop
from duly.sync.resources import SyncResources
from duly.sync.services import (
    SyncAppBatches,
    SyncAppEndpoints,
    SyncAppKeys,
    SyncAppSchedules,
    SyncAppStats,
    SyncExporting,
    SyncImporting,
)
from duly.sync.transactions import SyncMessage, SyncTransaction, is_plain


class SyncNamespace(SyncResources):
    """The services of one namespace; their methods block."""

    schedules: SyncAppSchedules
    endpoints: SyncAppEndpoints
    batches: SyncAppBatches
    keys: SyncAppKeys
    stats: SyncAppStats

    def __init__(self, wrapped: Namespace, home: Home, path: str = "app") -> None:
        super().__init__(wrapped, home, path)
        self._namespace = wrapped
        self.schedules = SyncAppSchedules(wrapped.schedules, home, f"{path}.schedules")
        self.endpoints = SyncAppEndpoints(wrapped.endpoints, home, f"{path}.endpoints")
        self.batches = SyncAppBatches(wrapped.batches, home, f"{path}.batches", self.deliveries)
        self.keys = SyncAppKeys(wrapped.keys, home, f"{path}.keys")
        self.stats = SyncAppStats(wrapped.stats, home, f"{path}.stats")
        self.exporting = SyncExporting(wrapped.exporting, home, f"{path}.exporting")
        self.importing = SyncImporting(wrapped.importing, home, f"{path}.importing")

    series = blocking(Monitoring.series)
    schedule = blocking(Namespace.schedule)

    def acting_as(self, actor: str) -> SyncNamespace:
        """The same namespace, with this `actor` in the audit trail."""
        return SyncNamespace(self._namespace.acting_as(actor), self._home, self._path)

    def deliver(
        self,
        target: Target,
        payload: Any = None,
        *,
        id: str | None = None,
        connection: Any = None,
        **options: Unpack[DeliveryKeywords],
    ) -> SyncHandle[Any]:
        """Accept one delivery; when this returns it is on disk.

        The parameters are those of `app.deliver`. A `connection` of psycopg, psycopg2, SQLAlchemy
        or Django is used in this thread, as with `deliver_within`.
        """
        own = self._namespace
        accepted: Accepted
        if is_plain(connection):
            refuse_event_loop(lambda: f"await {self._path}.deliver(...)")
            accepted = own.deliver_within(connection, target, payload, id=id, **options)
        else:
            put = partial(own.put, target=target, payload=payload, id=id, **options)
            accepted = self._home.run(
                lambda: own.deliver(target, payload, id=id, connection=connection, **options),
                lambda: f"await {self._path}.deliver(...)",
                put if connection is None else None,
            )
        return sync_handle_of(accepted, self.deliveries)

    def deliver_each(self, items: Iterable[Item | DulyError]) -> Sequence[Accepted | DulyError]:
        """Accept many deliveries independently; an error is returned in the place of its item."""
        return self._run_for("deliver_each", items, self._namespace.deliver_each)

    @contextmanager
    def transaction(self) -> Iterator[SyncTransaction]:
        """A transaction of the store: committed at the end of the block, rolled back if it raises.

        `with app.sync.transaction() as tx:` has `tx.execute(sql, *parameters)` and `tx.fetch` for
        your own tables (`?` on SQLite, `$1` on PostgreSQL), and
        `app.sync.deliver(..., connection=tx)`. On SQLite it blocks all other writes.
        """
        with self._within(self._namespace.transaction, "transaction") as (conversation, opened):
            yield SyncTransaction(conversation, opened)

    @contextmanager
    def receive(
        self, message_id: str, consumer: str, *, connection: Any = None
    ) -> Iterator[SyncMessage]:
        """A message that the consumer handles once, in a transaction that the block commits.

        `with app.sync.receive(id, "billing") as message:` with `message.is_new`,
        `message.keep(result)`, and for a duplicate the first `message.result`. In the block it
        has the methods of `app.sync.transaction()`. `connection` is an open transaction of duly.
        """
        block = self._within(
            lambda: self._namespace.receive(message_id, consumer, connection=connection), "receive"
        )
        with block as (conversation, message):
            yield SyncMessage(conversation, message)


class SyncApp(SyncNamespace):
    """An App whose methods block.

    The first call opens the App, and the end of the process closes it. `with app.sync:` opens it at
    once, and closes it at the end of the block.
    """

    def within(self, namespace: str) -> SyncNamespace:
        """Another namespace of the store, to deliver, read and change there."""
        return SyncNamespace(self._wrapped.within(namespace), self._home, self._path)

    def open(self, *, migrate: bool = True) -> None:
        """Connect to the store and bring its schema up to date."""
        self._home.open(
            lambda: self._wrapped.open(migrate=migrate), lambda: f"await {self._path}.open()"
        )

    def close(self) -> None:
        """Close the connection to the store."""
        self._home.close(lambda: f"await {self._path}.close()")

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(self, *, signals: bool = True) -> None:
        """Work until `app.stop()` is called, or SIGTERM or SIGINT is received.

        It runs an event loop in this thread. Then it drains and returns.
        """
        refuse_event_loop(lambda: f"await {self._path}.run()")
        asyncio.run(self._wrapped.run(signals=signals))

    @contextmanager
    def worker(self) -> Iterator[Self]:
        """Work in the background of a program, as long as the block runs.

        `with app.sync.worker():` continues when the worker has started, or raises its error. At
        the end of the block it stops gracefully, like `run`: running deliveries may finish within
        `drain`. It handles no signals.
        """
        # It opens the App, and closes it at its end.
        with self._within(self._wrapped.worker, "worker", opens=False):
            yield self
