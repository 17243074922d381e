"""What is asked of the store about deliveries, workers and itself."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from duly.domain.deliveries.delivery import (
    Accepted,
    Attempt,
    Claimed,
    Delivery,
    Lane,
    PreparedDelivery,
)
from duly.domain.deliveries.outcomes import Settlement
from duly.domain.deliveries.states import State
from duly.errors import Conflict
from duly.ports.dead_letters import DeadLetters
from duly.ports.endpoints import Endpoints, Gates
from duly.ports.failure_stats import FailureStatsTable
from duly.ports.idempotency import IdempotentRequests
from duly.ports.keys import Keys
from duly.ports.monitoring import Alerts, Rollups, StatusReader, Traces
from duly.ports.schedules import Audit, Plans, Schedules
from duly.ports.steps import Steps
from duly.ports.streams import Streams
from duly.ports.transactions import Inbox, OpenTransaction, Outbox, Transaction
from duly.ports.transfer import Transfer
from duly.ports.workers import Workers


class ClaimableGroup(msgspec.Struct, frozen=True):
    """Lanes of one level and target that nobody holds, and when the first of them is due."""

    priority: int
    target: int
    due_at: datetime
    seen_at: datetime | None = None
    """When the store looked, by its own clock."""
    shut: bool = False
    """Its endpoint is paused or disabled, or there is none."""
    probe_at: datetime | None = None
    """Its circuit is open, and this is when one may try it."""
    failing: bool = False
    limited: bool = False
    """Its endpoint takes only so many a second, or at once."""


class ClaimRequest(msgspec.Struct, frozen=True):
    """How many lanes to take of one opening; lanes due before `floor_at` are not looked at."""

    priority: int
    target: int
    floor_at: datetime
    quota: int


class LateWork(msgspec.Struct, frozen=True):
    """What is due for long: how many deliveries (counted up to a million), and the oldest."""

    count: int
    oldest: datetime


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries to list: newest first, `before` is the id to go on from.

    `since` and `until` are about when they were accepted; `text` is in the error, key or payload.
    `id` is how their ids begin.
    """

    id: str | None = None
    state: State | None = None
    target: str | None = None
    tag: str | None = None
    key: str | None = None
    stream: str | None = None
    schedule: str | None = None
    reason: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: str | None = None
    limit: int = 50


class Swept(msgspec.Struct, frozen=True):
    """What the sweep put back; all zeros when all is well."""

    without_lane: int = 0
    held_by_nobody: int = 0
    lane_without_delivery: int = 0
    schedule_without_next: int = 0

    @property
    def total(self) -> int:
        """How many things no ordinary path would have picked up."""
        return sum(msgspec.structs.astuple(self))


class Deliveries(Protocol):
    """The ledger: every delivery and what became of it."""

    async def accept(self, requests: Sequence[PreparedDelivery]) -> list[Accepted | Conflict]:
        """Store each for itself, in one commit; safe to repeat with the same ids.

        A key that is known with another target or payload is answered with a Conflict.
        """

    async def accept_all(self, chunks: AsyncIterable[Sequence[PreparedDelivery]]) -> list[Accepted]:
        """Store them all or, when one conflicts, none; safe to repeat with the same ids."""

    async def get(self, id: str) -> Delivery:
        """One delivery, or NotFound."""

    async def page(self, filter: Filter) -> tuple[list[Delivery], str | None]:
        """A page of deliveries, newest first, and the id to go on from, None at the end.

        Only so many are looked at: there may be fewer than asked for, or none, and still more
        to come. Of one stream they come in its order, of one schedule by their occurrences.
        """

    async def attempts(self, id: str) -> list[Attempt]:
        """The history of one delivery, oldest first, or NotFound."""

    async def cancel(self, id: str, actor: str | None = None) -> Delivery:
        """Cancel what is pending; Conflict when it is not. An actor gets an audit entry."""

    async def retry(self, id: str, actor: str | None = None) -> Delivery:
        """Make a dead letter pending again, or a waiting one due now; else Conflict.

        An actor gets an audit entry.
        """

    async def late(self, grace: timedelta, limit: int) -> list[Delivery]:
        """What is due for longer than `grace` and held by nobody, oldest first."""

    async def stuck(self, held_for: timedelta, limit: int) -> list[tuple[Delivery, str]]:
        """What will not move by itself, and why."""


class TargetName(msgspec.Struct, frozen=True):
    """What a target's number stands for."""

    namespace: str
    name: str


class Targets(Protocol):
    """The short numbers under which the agenda knows where deliveries go."""

    async def numbers(self, names: Collection[str], *, create: bool) -> dict[str, int]:
        """The numbers of those names that are known; unknown ones are made on request."""

    async def named(self, numbers: Collection[int]) -> dict[int, TargetName]:
        """Targets of any namespace, by number."""

    async def namespaces(self, served: Sequence[str] | None) -> list[str]:
        """Of these namespaces, or of all, those that have a target or a key."""

    async def refresh(self) -> dict[int, str]:
        """Every target of the namespace, by number, read anew."""


class Agenda(Protocol):
    """The lanes that have work: the hot path."""

    async def survey(self) -> list[ClaimableGroup]:
        """Each level and target that has lanes nobody holds, with its first due moment."""

    async def look(self) -> list[ClaimableGroup]:
        """The same for whoever only looks: it waits for nobody who writes."""

    async def late_work(
        self, grace: timedelta, targets: Collection[int] | None = None
    ) -> LateWork | None:
        """How much, of these targets or all, is due for longer than `grace` and held by nobody."""

    async def claim(
        self, token: int, slots: int, asks: Sequence[ClaimRequest], finished: Sequence[int] = ()
    ) -> list[Claimed]:
        """Take at most `slots` due lanes under the token; atomic, skips what others hold.

        The most urgent come first. A worker that was declared dead gets nothing. `finished` are
        earlier tokens under which nothing is held any more: the store may forget them.
        """

    async def settle(self, settlements: Sequence[Settlement]) -> set[Lane]:
        """Write what became of held lanes; returns the lanes to which it applied.

        Atomic. A settlement whose token does not hold its lane changes nothing.
        """

    async def release(self, token: int) -> int:
        """Hand back, untouched, whatever is held under the token."""

    async def held_by_dead(self, limit: int) -> list[Claimed]:
        """Deliveries whose holder is dead, with the token under which it held them."""


class Maintenance(Protocol):
    """The slow work on the store."""

    async def prune(
        self, completed_for: timedelta, dead_for: timedelta, after: str, batch: int
    ) -> tuple[int, str | None]:
        """Remove finished deliveries of one slice of the ledger.

        Returns how many, and the id to go on from, None at the end. Never removes unfinished work.
        """

    async def count_prunable(
        self, completed_for: timedelta, dead_for: timedelta, after: str, batch: int
    ) -> tuple[int, str | None]:
        """How many deliveries of one slice `prune` would remove, and the id to go on from."""

    async def forget(self, namespace: str, after: str, batch: int) -> str | None:
        """Remove whatever a namespace has in one slice, unfinished work too.

        Returns the id to go on from, None at the end. Only for a namespace made to throw away.
        """

    async def sweep(self, after: str, batch: int) -> tuple[Swept, str | None]:
        """Put back what no ordinary path would pick up, in one slice of the ledger."""


class Wakeups(Protocol):
    """Hints that something became due; losing all of them costs at most one poll."""

    def hint(self) -> None:
        """Say that something is runnable now; cheap, and merged with others."""

    def listen(self, callback: Callable[[], None]) -> None:
        """Call back on every hint from now on."""

    async def check(self) -> bool:
        """Mend or ask whatever brings hints from other processes; False when none can come."""


class Store(Protocol):
    """Everything that is kept."""

    namespace: str
    single_owner: bool
    one_loop: bool
    source: object
    """What its StoreUnavailable errors carry: a handler may use other stores too."""

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
    def plans(self) -> Plans: ...
    @property
    def endpoints(self) -> Endpoints: ...
    @property
    def gates(self) -> Gates: ...
    @property
    def streams(self) -> Streams: ...
    @property
    def steps(self) -> Steps: ...
    @property
    def failure_stats(self) -> FailureStatsTable: ...
    @property
    def status(self) -> StatusReader: ...
    @property
    def rollups(self) -> Rollups: ...
    @property
    def alerts(self) -> Alerts: ...
    @property
    def traces(self) -> Traces: ...
    @property
    def dead_letters(self) -> DeadLetters: ...
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
    def wakeups(self) -> Wakeups: ...

    async def open(self, *, migrate: bool = True) -> None:
        """Connect, and bring the schema up to date."""

    async def reserve(self) -> None:
        """Open the connections that a worker cannot do without, and keep them."""

    async def own(self) -> None:
        """Become the one server of a store that allows only one; StoreIsOwned otherwise."""

    def stay_owned(self) -> None:
        """Keep the ownership until the process ends: a handler of it has not ended."""

    async def close(self) -> None:
        """Let go of everything; safe to call twice."""

    def within(self, namespace: str) -> Store:
        """The tables of another namespace over the same connections; closed with this one."""

    def serving(self, served: Sequence[str] | None) -> Store:
        """This store for an engine that works for these namespaces, or for all.

        Its agenda, maintenance and workers look at all of them; the rest is of its own namespace.
        """

    def enter(self) -> None:
        """Belong to the running event loop until it is closed; OtherEventLoop if to another."""

    def check_loop(self) -> None:
        """OtherEventLoop when the store belongs to another event loop than the running one."""

    def check_writable(self) -> None:
        """Conflict when the caller is in a transaction that its write would wait for.

        OtherEventLoop as `check_loop`.
        """

    async def begin(self, worker: int | None = None) -> OpenTransaction:
        """Open a transaction for a handler of the worker; it ends if the worker is buried."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction for a block of code: committed at its end, undone if it raises."""

    async def facts(self) -> dict[str, Any]:
        """What the doctor looks at."""

    def beside(self) -> AbstractAsyncContextManager[Workers]:
        """The roster over a connection of its own, for use on another thread's loop."""
