"""The store's interface: deliveries, targets, agenda, maintenance, and the store itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from duly.domain.deliveries.delivery import Claimed, Lane, PreparedDelivery
from duly.domain.deliveries.outcomes import Settlement
from duly.ports.batches import Batches, Refusal
from duly.ports.calendars import Calendars
from duly.ports.claims import ClaimableGroup, ClaimRequest, Turns
from duly.ports.dead_letters import DeadLetters
from duly.ports.declarations import Declarations
from duly.ports.endpoints import Addresses, Endpoints, Gates
from duly.ports.failure_stats import FailureStatsTable
from duly.ports.idempotency import IdempotentRequests
from duly.ports.keys import Keys
from duly.ports.limits import Limits
from duly.ports.monitoring import Alerts, Outages, Rollups, StatusReader, Traces
from duly.ports.recovery import Generations, Recovery
from duly.ports.running import Running
from duly.ports.schedules import Audit, Plans, Schedules
from duly.ports.steps import Steps
from duly.ports.streams import LimitedBlock, Streams
from duly.ports.transactions import Inbox, OpenTransaction, Outbox, Transaction
from duly.ports.transfer import Transfer
from duly.ports.unique_keys import UniqueKeys
from duly.ports.workers import Workers
from duly.records.attempt import HistoryEntry
from duly.records.delivery import (
    Accepted,
    Delivery,
    DeliveryFilter,
    DeliverySort,
    ExplainedDelivery,
)
from duly.records.state import State


class LateWork(msgspec.Struct, frozen=True):
    """Late deliveries: their number, counted up to a million, and the oldest due moment."""

    count: int
    oldest: datetime


class Filter(DeliveryFilter, frozen=True, kw_only=True):
    """Selects a page of deliveries; `before` is the id or cursor to continue from."""

    late_over: float | None = None
    """In seconds."""
    sort: DeliverySort | None = None
    before: str | None = None
    limit: int = 50
    payloads: bool = True


class StoreSizes(msgspec.Struct, frozen=True):
    """How large the lanes and their indexes are on disk."""

    agenda_bytes: int
    agenda_index_bytes: int


class Swept(msgspec.Struct, frozen=True):
    """What the sweep repaired; all zeros if nothing was wrong."""

    without_lane: int = 0
    without_owner: int = 0
    lane_without_delivery: int = 0
    schedule_without_next: int = 0

    @property
    def total(self) -> int:
        """The number of repairs."""
        return sum(msgspec.structs.astuple(self))


class Deliveries(Protocol):
    """The ledger: every delivery and its history."""

    async def accept(self, requests: Sequence[PreparedDelivery]) -> list[Accepted | Refusal]:
        """Store deliveries independently, in one commit; safe to repeat with the same ids.

        The result is a Conflict if a key is known with another target or payload, or if a batch is
        closed; NotFound if there is no such batch.
        """

    async def accept_all(self, chunks: AsyncIterable[Sequence[PreparedDelivery]]) -> list[Accepted]:
        """Store all deliveries or, if one conflicts, none; safe to repeat with the same ids."""

    async def get(self, id: str) -> Delivery:
        """One delivery, or NotFound."""

    async def page(self, filter: Filter) -> tuple[list[Delivery], str | None]:
        """A page of deliveries, newest first, and the id to continue from, None at the end.

        The number of examined rows is bounded, so a page may have fewer items than the limit, or
        none, before the end. Those of one stream are in its order, those of one schedule by
        occurrence. By lateness, the most late come first, and InvalidInput is raised if more rows
        would have to be compared than is allowed.
        """

    async def counts(self, filter: Filter) -> tuple[dict[State, int], bool]:
        """How many match by state, among the newest; and whether older ones were left out."""

    async def unfinished(self, ids: Collection[str]) -> set[str]:
        """Those of these deliveries, of any namespace, that have not ended."""

    async def history(self, id: str) -> list[HistoryEntry]:
        """The history of one delivery, oldest first, or NotFound."""

    async def cancel(self, id: str, actor: str | None = None, *, running: bool = True) -> Delivery:
        """Cancel a pending delivery, or if `running`, ask for it while it runs; else Conflict.

        With an actor, write an audit entry.
        """

    async def retry(self, id: str, actor: str | None = None) -> Delivery:
        """Make a dead letter pending again, or a waiting delivery due now; else Conflict.

        With an actor, write an audit entry.
        """

    async def late(self, grace: timedelta, limit: int) -> list[Delivery]:
        """Unclaimed deliveries that are due for longer than `grace`, oldest first."""

    async def stuck(self, held_for: timedelta, limit: int) -> list[ExplainedDelivery]:
        """Deliveries that need an operator, and why."""


class TargetName(msgspec.Struct, frozen=True):
    """The namespace and name of a target."""

    namespace: str
    name: str


class Targets(Protocol):
    """Targets and their numbers, which the agenda uses in place of names."""

    async def numbers(self, names: Collection[str], *, create: bool) -> dict[str, int]:
        """The numbers of known names; with `create`, unknown names get a number."""

    def is_known(self, name: str) -> bool:
        """Whether the target is known to have a number, without asking the store."""

    async def named(self, numbers: Collection[int]) -> dict[int, TargetName]:
        """Targets of any namespace, by number."""

    async def namespaces(self, served: Sequence[str] | None) -> list[str]:
        """The namespaces that have a target or a key, among `served` or all."""

    async def refresh(self) -> dict[int, str]:
        """All targets of the namespace by number, read from the store and cached."""


class Agenda(Protocol):
    """The lanes that have work: the hot path."""

    async def survey(self) -> list[ClaimableGroup]:
        """The groups of unclaimed lanes, by priority and target."""

    async def look(self) -> list[ClaimableGroup]:
        """The same as `survey` for read-only callers: it never waits for a writer."""

    async def late_work(
        self, grace: timedelta, targets: Collection[int] | None = None
    ) -> LateWork | None:
        """Unclaimed work due for longer than `grace`, of these targets or all."""

    async def claim(
        self, token: int, slots: int, asks: Sequence[ClaimRequest], finished: Sequence[int] = ()
    ) -> list[Claimed]:
        """Claim at most `slots` due lanes under the token; atomic, skips lanes that others hold.

        `asks` are served in their order, in each the earliest due lanes first. A worker that was
        declared dead gets nothing. `finished` are earlier tokens that hold nothing any more: the
        store may forget them.
        """

    async def settle(self, settlements: Sequence[Settlement]) -> set[Lane]:
        """Write the outcomes of held lanes; returns the lanes to which they applied.

        Atomic. A settlement whose token does not hold its lane changes nothing.
        """

    async def release(self, token: int) -> int:
        """Release all lanes held under the token, without an attempt."""

    async def held_by_dead(self, limit: int) -> list[Claimed]:
        """Deliveries that dead workers hold, with their tokens."""

    async def limited_blocks(self, limit: int) -> list[LimitedBlock]:
        """Streams that a failed head blocks for a limited time, those that end first."""


class Maintenance(Protocol):
    """Background maintenance of the store."""

    async def prune(
        self, completed_for: timedelta, dead_for: timedelta, after: str, batch: int
    ) -> tuple[int, str | None]:
        """Remove finished deliveries of one slice of the ledger.

        Returns how many, and the id to continue from, None at the end. Never removes unfinished
        work.
        """

    async def count_prunable(
        self, completed_for: timedelta, dead_for: timedelta, after: str, batch: int
    ) -> tuple[int, str | None]:
        """How many deliveries of one slice `prune` would remove, and the id to continue from."""

    async def forget(self, namespace: str, after: str, batch: int) -> str | None:
        """Remove all data of a namespace in one slice, including unfinished work.

        Returns the id to continue from, None at the end. Only for temporary namespaces.
        """

    async def forget_finished(
        self, namespace: str, target: str, tag: str, after: str, batch: int
    ) -> tuple[int, str | None]:
        """Remove the finished deliveries of a target with a tag, in one slice of the ledger.

        Returns how many, and the id to continue from, None at the end. Never removes unfinished
        work.
        """

    async def forget_stream(self, namespace: str, stream: str) -> bool:
        """Remove a stream that has no deliveries; whether there was one."""

    async def sweep(self, after: str, batch: int) -> tuple[Swept, str | None]:
        """Repair inconsistencies in one slice of the ledger, such as a delivery without a lane."""


class Wakeups(Protocol):
    """Hints that a delivery became due; losing all of them costs at most one poll."""

    def hint(self) -> None:
        """Signal that a delivery can run now; cheap, and merged with other hints."""

    def listen(self, callback: Callable[[], None]) -> None:
        """Call `callback` on every hint from now on."""

    async def check(self) -> bool:
        """Check or reopen the source of hints from other processes; False if none can arrive."""


class Store(Protocol):
    """A store: all tables of one namespace, and its connections."""

    namespace: str
    single_owner: bool
    one_loop: bool
    source: object
    """The `source` of its StoreUnavailable errors: a handler may use other stores too."""

    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def targets(self) -> Targets: ...
    @property
    def agenda(self) -> Agenda: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def schedules(self) -> Schedules: ...
    @property
    def declarations(self) -> Declarations: ...
    @property
    def calendars(self) -> Calendars: ...
    @property
    def plans(self) -> Plans: ...
    @property
    def endpoints(self) -> Endpoints: ...
    @property
    def addresses(self) -> Addresses: ...
    @property
    def gates(self) -> Gates: ...
    @property
    def turns(self) -> Turns: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def streams(self) -> Streams: ...
    @property
    def batches(self) -> Batches: ...
    @property
    def steps(self) -> Steps: ...
    @property
    def running(self) -> Running: ...
    @property
    def failure_stats(self) -> FailureStatsTable: ...
    @property
    def status(self) -> StatusReader: ...
    @property
    def rollups(self) -> Rollups: ...
    @property
    def outages(self) -> Outages: ...
    @property
    def alerts(self) -> Alerts: ...
    @property
    def traces(self) -> Traces: ...
    @property
    def dead_letters(self) -> DeadLetters: ...
    @property
    def recovery(self) -> Recovery: ...
    @property
    def generations(self) -> Generations: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def keys(self) -> Keys: ...
    @property
    def maintenance(self) -> Maintenance: ...
    @property
    def transfer(self) -> Transfer: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def outbox(self) -> Outbox: ...
    @property
    def idempotency(self) -> IdempotentRequests: ...
    @property
    def unique_keys(self) -> UniqueKeys: ...
    @property
    def wakeups(self) -> Wakeups: ...

    async def open(self, *, migrate: bool = True) -> None:
        """Connect, and bring the schema up to date."""

    async def reserve(self) -> None:
        """Open the connections that a worker needs, and keep them open."""

    async def own(self) -> None:
        """Become the only server of a store that allows one; StoreIsOwned if another is."""

    def stay_owned(self) -> None:
        """Keep the ownership until the process ends, because a handler is still running."""

    async def close(self) -> None:
        """Close all connections; safe to call twice."""

    def within(self, namespace: str) -> Store:
        """The tables of another namespace over the same connections; closed with this one."""

    def serving(self, served: Sequence[str] | None) -> Store:
        """This store for an engine that works for these namespaces, or for all.

        Agenda, maintenance and workers cover all of them; everything else only its namespace.
        """

    def enter(self) -> None:
        """Bind the store to the running event loop; OtherEventLoop if it is bound to another."""

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop it is bound to; StoreUnavailable if that is the parent process's."""

    def settle_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Bind the store, which is closed, to an event loop."""

    def check_loop(self) -> None:
        """Raise OtherEventLoop if the store is bound to another event loop."""

    def check_writable(self) -> None:
        """Raise Conflict if the caller is in a transaction that its write would wait for.

        Also raises OtherEventLoop as `check_loop` does.
        """

    async def begin(self, worker: int | None = None) -> OpenTransaction:
        """Open a transaction for a handler; it is aborted if the worker is declared dead."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction for a block of code: committed at its end, rolled back if it raises."""

    async def facts(self) -> dict[str, Any]:
        """Data for `duly doctor`."""

    async def sizes(self) -> StoreSizes | None:
        """What grows on PostgreSQL between two vacuums; None on SQLite, which reuses space."""

    def beside(self) -> AbstractAsyncContextManager[Workers]:
        """The workers table over a separate connection, for the event loop of another thread."""
