"""The resources of an App as protocols: methods and types, no implementation.

A client of a server has all of them too, so no method needs a connection to the store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, Unpack

from duly.domain.dead_letters import ALL
from duly.domain.endpoints.endpoint import OVERLAP
from duly.domain.monitoring.failure_stats import DAY
from duly.domain.monitoring.outages import LEAST, WEEK
from duly.domain.monitoring.rollups import HOUR, MINUTE
from duly.domain.time.rules import Rule
from duly.records.alert import Alert
from duly.records.attempt import Attempt, HistoryEntry, Step
from duly.records.audit_entry import AuditEntry
from duly.records.batch import Batch, BatchState, Then
from duly.records.dead_letter import BulkProgress, DeadLetterFilter, DeadLetterGroup
from duly.records.delivery import (
    Accepted,
    Delivery,
    DeliveryCounts,
    DeliveryDetail,
    DeliveryKeywords,
    ExplainedDelivery,
    FilterKeywords,
    PageKeywords,
)
from duly.records.endpoint import (
    Endpoint,
    EndpointChangeKeywords,
    EndpointKeywords,
    EndpointTest,
    EndpointWithSecret,
)
from duly.records.key import Key, KeyWithToken, Scope
from duly.records.limit import Limit, LimitKey
from duly.records.outage import OutageReport
from duly.records.page import Page
from duly.records.recovery import AfterTries, Generation, RecoveryPolicy, Replay
from duly.records.retry_plan import RetryPlan
from duly.records.schedule import DeclaredSchedule, ScheduleKeywords
from duly.records.stats import FailureStats, Series
from duly.records.status import Overview, Status, Top
from duly.records.stream import Stream, StreamKeywords, StreamState
from duly.records.target import EndpointTarget, HandlerTarget, Target
from duly.records.worker import Worker
from duly.schedule_resources import Calendars, Schedules
from duly.services.batches import OpenBatch
from duly.services.deliveries.handles import Handle
from duly.services.deliveries.intake import Item


class DeliveryMethods(Protocol):
    """The most used methods of deliveries; an App and a client have them too."""

    async def get(self, id: str) -> Delivery: ...
    async def list(self, **wanted: Unpack[PageKeywords]) -> Sequence[Delivery]: ...
    async def page(self, **wanted: Unpack[PageKeywords]) -> Page[Delivery]: ...
    async def attempts(self, id: str) -> Sequence[Attempt]: ...
    async def steps(self, id: str) -> Sequence[Step]: ...
    async def wait(
        self, id: str, *, timeout: float | timedelta | None = None
    ) -> DeliveryDetail: ...
    async def cancel(self, id: str) -> Delivery: ...
    async def retry(self, id: str) -> Delivery: ...


class Deliveries(DeliveryMethods, Protocol):
    """Deliveries that were accepted."""

    async def detail(self, id: str, *, wait: float = 0) -> DeliveryDetail: ...
    async def history(self, id: str) -> Sequence[HistoryEntry]: ...
    async def count(self, *, waiting: bool = False, **wanted: Unpack[FilterKeywords]) -> int: ...
    async def counts(self, **wanted: Unpack[FilterKeywords]) -> DeliveryCounts: ...
    def cancel_all(self, **wanted: Unpack[FilterKeywords]) -> AsyncIterator[BulkProgress]: ...
    def retry_all(self, **wanted: Unpack[FilterKeywords]) -> AsyncIterator[BulkProgress]: ...


class Endpoints(Protocol):
    """Webhook receivers with a name, a secret and limits."""

    async def add(
        self, name: str, url: str, *, secret: str | None = None, **options: Unpack[EndpointKeywords]
    ) -> EndpointWithSecret: ...
    async def get(self, name: str) -> Endpoint: ...
    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[Endpoint]: ...
    async def edit(
        self,
        name: str,
        *,
        version: int | None = None,
        header_changes: Mapping[str, str | None] | None = None,
        **options: Unpack[EndpointChangeKeywords],
    ) -> Endpoint: ...
    async def pause(self, name: str, reason: str | None = None) -> Endpoint: ...
    async def resume(self, name: str) -> Endpoint: ...
    async def rotate(
        self, name: str, *, secret: str | None = None, overlap: timedelta = OVERLAP
    ) -> EndpointWithSecret: ...
    async def test(self, name: str, payload: Any = None) -> EndpointTest: ...
    async def remove(
        self, name: str, *, cancel_waiting: bool = False, version: int | None = None
    ) -> Endpoint | None: ...
    async def count_dead(
        self, name: str, since: datetime, until: datetime | None = None
    ) -> int: ...
    def recover(
        self,
        name: str,
        since: datetime,
        *,
        rate: float | None = None,
        until: datetime | None = None,
    ) -> AsyncIterator[BulkProgress]: ...


class Limits(Protocol):
    """Limits of handlers and endpoints, and how far they are used."""

    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[Limit]: ...
    async def get(self, target: str | HandlerTarget | EndpointTarget) -> Limit: ...
    async def keys(
        self, target: str | HandlerTarget | EndpointTarget, *, after: str = "", limit: int = 50
    ) -> Sequence[LimitKey]: ...


class Streams(Protocol):
    """Keys whose deliveries run in order."""

    async def get(self, name: str) -> Stream: ...
    async def list(
        self, state: StreamState | str | None = None, *, after: str = "", limit: int = 50
    ) -> Sequence[Stream]: ...
    async def configure(self, name: str, **options: Unpack[StreamKeywords]) -> Stream: ...
    async def pause(self, name: str, reason: str | None = None) -> Stream: ...
    async def resume(self, name: str) -> Stream: ...
    async def retry_now(self, name: str) -> Stream: ...
    async def release(
        self, name: str, *, only: Iterable[str] | None = None, keep: Iterable[str] | None = None
    ) -> Stream: ...
    async def release_delivery(self, id: str) -> Stream: ...
    async def cancel_head(self, name: str) -> Stream: ...
    async def dead_letter_head(self, name: str, note: str | None = None) -> Stream: ...


class Batches(Protocol):
    """Deliveries whose common end is announced by one more delivery."""

    async def open(self, then: Then, *, name: str | None = None) -> Batch: ...
    async def get(self, id: str) -> Batch: ...
    async def list(
        self,
        state: BatchState | str | None = None,
        *,
        before: str | None = None,
        limit: int = 50,
    ) -> Sequence[Batch]: ...
    async def deliver(
        self, id: str, target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> Handle[Any]: ...
    async def close(self, id: str) -> Batch: ...
    async def cancel(self, id: str) -> Batch: ...


class DeadLetters(Protocol):
    """Deliveries that will not be tried again by themselves."""

    async def list(
        self,
        filter: DeadLetterFilter = ALL,
        *,
        before: str | None = None,
        limit: int = 50,
        payloads: bool = True,
    ) -> Sequence[Delivery]: ...
    async def page(
        self,
        filter: DeadLetterFilter = ALL,
        *,
        before: str | None = None,
        limit: int = 50,
        payloads: bool = True,
    ) -> Page[Delivery]: ...
    async def groups(
        self, filter: DeadLetterFilter = ALL, *, limit: int = 50
    ) -> Sequence[DeadLetterGroup]: ...
    async def count(self, filter: DeadLetterFilter = ALL) -> int: ...
    async def retry(self, id: str, *, reset_attempts: bool = True) -> Delivery: ...
    async def edit(self, id: str, payload: Any) -> Delivery: ...
    async def discard(self, id: str, note: str) -> Delivery: ...
    async def hold(self, id: str, note: str) -> Delivery: ...
    async def release(self, id: str) -> Delivery: ...
    async def give_up(self, id: str, note: str) -> Delivery: ...
    def retry_all(
        self,
        filter: DeadLetterFilter = ALL,
        *,
        rate: float | None = None,
        reset_attempts: bool = True,
    ) -> AsyncIterator[BulkProgress]: ...
    def discard_all(self, filter: DeadLetterFilter, note: str) -> AsyncIterator[BulkProgress]: ...
    def hold_all(self, filter: DeadLetterFilter, note: str) -> AsyncIterator[BulkProgress]: ...
    def release_all(self, filter: DeadLetterFilter = ALL) -> AsyncIterator[BulkProgress]: ...
    def give_up_all(self, filter: DeadLetterFilter, note: str) -> AsyncIterator[BulkProgress]: ...
    async def poison_candidates(
        self,
        *,
        limit: int = 50,
        last_attempts: bool = False,
        plan: Callable[[str], RetryPlan] | None = None,
        payloads: bool = True,
    ) -> Sequence[ExplainedDelivery]: ...


class Recovery(Protocol):
    """How dead letters recover by themselves: policies, and generations of the deployment."""

    async def policies(self) -> Sequence[RecoveryPolicy]: ...
    async def set(
        self,
        reason: str,
        *,
        tries: int,
        after: float | timedelta | str = 0.0,
        then: AfterTries | str | None = None,
        target: str | None = None,
    ) -> RecoveryPolicy: ...
    async def remove(self, reason: str, *, target: str | None = None) -> None: ...
    async def generations(self, *, limit: int = 50) -> Sequence[Generation]: ...
    async def replay(
        self, generation: str, *, held: bool = False, dry_run: bool = False
    ) -> Replay: ...


class Workers(Protocol):
    """Processes that attempt deliveries."""

    async def list(self, *, limit: int = 100) -> Sequence[Worker]: ...
    async def drain(self, worker: int) -> Worker: ...
    async def resume(self, worker: int) -> Worker: ...


class Keys(Protocol):
    """API keys."""

    async def create(
        self, name: str, *, scope: Scope | str = Scope.READ, expires_at: datetime | None = None
    ) -> KeyWithToken: ...
    async def get(self, id: str) -> Key: ...
    async def list(self, *, after: str = "", limit: int = 50) -> Sequence[Key]: ...
    async def revoke(self, id: str) -> Key: ...


class Alerts(Protocol):
    """Active and past alerts."""

    async def raised(self) -> Sequence[Alert]: ...
    async def list(self, *, before: int | None = None, limit: int = 50) -> Sequence[Alert]: ...


class Stats(Protocol):
    """The status and counts of the namespace."""

    async def __call__(self, since: datetime | timedelta | float = DAY) -> FailureStats: ...
    async def failures(self, since: datetime | timedelta | float = DAY) -> FailureStats: ...
    async def series(
        self,
        since: datetime | timedelta | float = HOUR,
        until: datetime | None = None,
        step: timedelta | float = MINUTE,
        *,
        target: str | HandlerTarget | None = None,
        schedule: str | None = None,
    ) -> Series: ...
    async def outages(
        self,
        since: datetime | timedelta | float = WEEK,
        *,
        at_least: timedelta | float | str = LEAST,
        limit: int = 50,
    ) -> OutageReport: ...
    async def overview(self) -> Overview: ...
    async def status(self) -> Status: ...
    async def top(self) -> Top: ...
    async def late(
        self, grace: timedelta | None = None, *, limit: int = 50, payloads: bool = True
    ) -> Sequence[Delivery]: ...
    async def stuck(
        self, held_for: timedelta, *, limit: int = 50, payloads: bool = True
    ) -> Sequence[ExplainedDelivery]: ...


class Audit(Protocol):
    """Who changed what, and when."""

    async def list(self, *, before: int | None = None, limit: int = 50) -> Sequence[AuditEntry]: ...


class Resources(DeliveryMethods, Protocol):
    """All resources of a namespace, and the short forms of the most used methods."""

    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def schedules(self) -> Schedules: ...
    @property
    def calendars(self) -> Calendars: ...
    @property
    def endpoints(self) -> Endpoints: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def streams(self) -> Streams: ...
    @property
    def batches(self) -> Batches: ...
    @property
    def dead_letters(self) -> DeadLetters: ...
    @property
    def recovery(self) -> Recovery: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def keys(self) -> Keys: ...
    @property
    def alerts(self) -> Alerts: ...
    @property
    def stats(self) -> Stats: ...
    @property
    def audit(self) -> Audit: ...

    async def deliver(
        self, target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> Handle[Any]: ...
    async def deliver_many(
        self, items: Iterable[Item], *, batch: str | None = None
    ) -> Sequence[Accepted]: ...
    def batch(self, then: Then, *, name: str | None = None) -> OpenBatch: ...
    async def schedule(
        self,
        name: str,
        /,
        rule: Rule,
        target: Target,
        payload: Any = None,
        **options: Unpack[ScheduleKeywords],
    ) -> DeclaredSchedule: ...
