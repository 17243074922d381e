"""`GET /health` and `/ready`: whether this process works, and whether to send it requests."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from duly.app import App
from duly.domain.time.zones import zone_data_version
from duly.engine.supervisor import Engine
from duly.errors import StoreUnavailable
from duly.records.status import BacklogStatus, NamespaceStatus
from duly.services.monitoring.monitoring import SOON_ENOUGH
from duly.stores.statements import migrations
from duly.surfaces.http.protocol.responses import Answer
from duly.surfaces.http.protocol.routing import OPEN, Route, get
from duly.version import __version__

NOT_KEPT = {"cache-control": "no-store"}
MOST_ORPHANS = 100
READY_SECONDS = 2.0
"""How long a readiness probe waits for the store."""


class StoreHealth(msgspec.Struct, frozen=True):
    """The store: its kind, its schema version, whether it answers, and how fast."""

    kind: Literal["sqlite", "postgresql"]
    schema: int
    reachable: bool
    latency_milliseconds: float | None = None


class AlertHealth(msgspec.Struct, frozen=True):
    """An active alert."""

    kind: str
    subject: str
    detail: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of this process; what only the store knows is null while it does not answer."""

    status: Literal["ok", "store_unavailable", "stopping"]
    version: str | UnsetType = UNSET
    store: StoreHealth | UnsetType = UNSET
    zones: str | UnsetType = UNSET
    workers: int | UnsetType | None = UNSET
    running: int | UnsetType = UNSET
    planner_lag_seconds: float | UnsetType | None = UNSET
    oldest_due_seconds: float | UnsetType | None = UNSET
    due: int | UnsetType | None = UNSET
    recovering: BacklogStatus | UnsetType | None = UNSET
    circuits_open: list[str] | UnsetType | None = UNSET
    alerts: list[AlertHealth] | UnsetType | None = UNSET
    orphaned_schedules: list[str] | UnsetType | None = UNSET


class HealthQuery(msgspec.Struct, frozen=True):
    """How much to return."""

    verbose: bool = False


class Readiness(msgspec.Struct, frozen=True):
    """Whether requests may be sent here; if not, why."""

    ready: bool
    reason: str | None = None


class ProcessHealth:
    """The health of this process."""

    def __init__(self, app: App, engine: Engine) -> None:
        self.app = app
        self.engine = engine
        self.stopping = False

    def refuse_if_stopping(self) -> None:
        """StoreUnavailable if the server is stopping."""
        if self.stopping:
            raise StoreUnavailable("this server is stopping; try again in a moment")

    def brief(self) -> Health:
        """The status only."""
        return Health(status="stopping" if self.stopping else "ok")

    async def readiness(self) -> Readiness:
        """Ready after the start, until the stop, while the store answers."""
        if self.stopping:
            return Readiness(False, "stopping")
        if not self.engine.is_ready:
            return Readiness(False, "starting: reclaiming what dead workers held")
        if await self._status(READY_SECONDS) is None:
            return Readiness(False, "the store does not answer")
        return Readiness(True)

    async def full(self) -> Health:
        """All fields, as far as the store answers."""
        now = await self._status(SOON_ENOUGH)
        return Health(
            status="store_unavailable"
            if now is None and not self.stopping
            else self.brief().status,
            version=__version__,
            store=self._store(now),
            zones=zone_data_version(),
            workers=None if now is None else now.workers,
            running=self.engine.running,
            planner_lag_seconds=None if now is None else now.planner_lag,
            oldest_due_seconds=None if now is None else now.oldest_due_seconds,
            due=None if now is None else now.due,
            recovering=None if now is None else self.engine.worker.backlog.recovering,
            circuits_open=None if now is None else [*now.circuits_open, *now.circuits_probing],
            alerts=None if now is None else await self._alerts(),
            orphaned_schedules=None if now is None else await self._orphans(),
        )

    def _store(self, now: NamespaceStatus | None) -> StoreHealth:
        single = self.app.store.single_owner
        steps = migrations("sqlite" if single else "postgres")
        return StoreHealth(
            "sqlite" if single else "postgresql",
            steps[-1].number,
            now is not None,
            None if now is None else round(now.store_seconds * 1000, 3),
        )

    async def _status(self, within: float) -> NamespaceStatus | None:
        try:
            return await self.app.stats.namespace_status(within)
        except StoreUnavailable:
            return None

    async def _alerts(self) -> list[AlertHealth] | None:
        try:
            raised = await self.app.alerts.raised()
        except StoreUnavailable:
            return None
        return [AlertHealth(each.kind, each.subject, each.detail) for each in raised]

    async def _orphans(self) -> list[str] | None:
        try:
            found = await self.app.schedules.orphans(limit=MOST_ORPHANS)
        except StoreUnavailable:
            return None
        return [each.name for each in found]


def health_routes(process: ProcessHealth) -> list[Route]:
    """The routes `/health` and `/ready`."""

    @get("/health", scope=OPEN, unless="verbose", here=True)
    async def health(query: HealthQuery) -> Answer[Health]:
        answer = await process.full() if query.verbose else process.brief()
        return Answer(answer, 200 if answer.status == "ok" else 503, NOT_KEPT)

    @get("/ready", scope=OPEN)
    async def ready() -> Answer[Readiness]:
        answer = await process.readiness()
        return Answer(answer, 200 if answer.ready else 503, NOT_KEPT)

    return [health, ready]
