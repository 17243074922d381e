"""Workers that start and die inside a test, on one database and one clock."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from duly import App, Delivery
from duly.domain.events import Event
from duly.engine.supervisor import Engine
from duly.engine.targets.admission import AdmissionControl
from duly.engine.targets.directory import TargetDirectory
from duly.engine.targets.pace import Pace
from duly.engine.targets.pacing import Pacing
from duly.engine.work_signal import WorkSignal
from duly.ports import TargetName
from duly.records.delivery import Delivery as StoredDelivery
from duly.testing import RecordingTransport, VirtualClock


class Barrier:
    """A handler that records its payloads and waits until it is opened."""

    def __init__(self) -> None:
        self.entered: list[Any] = []
        self.inside = self.most_inside = 0
        self.open = asyncio.Event()

    async def handle(self, delivery: Delivery[Any]) -> None:
        self.entered.append(delivery.payload)
        self.inside += 1
        self.most_inside = max(self.inside, self.most_inside)
        try:
            await self.open.wait()
        finally:
            self.inside -= 1


class WorkerProcess:
    """One process: an app, and an engine that is prepared but runs no loops."""

    def __init__(self, app: App, engine: Engine) -> None:
        self.app = app
        self.engine = engine

    async def tick(self) -> int:
        """Claim for all free slots and start the handlers; returns how many run."""
        worker, before = self.engine.worker, -1
        while worker.runner.running > before:
            before = worker.runner.running
            worker.signal.hint()
            await worker.dispatcher.tick()
            await self.yield_to_tasks()
        return worker.runner.running

    async def yield_to_tasks(self) -> None:
        """Let every task run until it waits for I/O."""
        for _ in range(5):
            await asyncio.tasks.sleep(0)

    async def finish(self) -> None:
        """Wait for running handlers and settle them."""
        await self.engine.worker.runner.drain(None)
        await self.engine.worker.settler.flush()

    async def kill(self) -> None:
        """Die at once: nothing is settled, released or ended."""
        await self.engine.worker.runner.drain(0)
        await self.app.close()


class Cluster:
    """Apps that share a database."""

    def __init__(self, url: str, clock: VirtualClock) -> None:
        self.url = url
        self.clock = clock
        self._apps: list[App] = []

    def app(self, **settings: Any) -> App:
        """A new app, as another process would create it."""
        app = App(self.url, clock=self.clock, environment={}, **settings)
        self._apps.append(app)
        return app

    async def start_worker(self, app: App) -> WorkerProcess:
        """Open the app and prepare a worker."""
        await app.open()
        engine = app.engine(stepped=True)
        await engine.prepare()
        return WorkerProcess(app, engine)

    async def close(self) -> None:
        for app in self._apps:
            await app.close()


def admission(
    gates: Any,
    targets: Mapping[int, str] | None = None,
    *,
    concurrency: int,
    pace: Pace | None = None,
) -> AdmissionControl:
    """Admission control for worker 1, which knows these targets."""
    membership: Any = SimpleNamespace(worker=1)
    return AdmissionControl(
        gates,
        lambda _: None,
        directory(targets or {}),
        WorkSignal(),
        membership,
        Pacing(VirtualClock().monotonic),
        pace or Pace(VirtualClock().monotonic),
        concurrency,
    )


def directory(targets: Mapping[int, str]) -> TargetDirectory:
    """A directory of these targets, all reachable."""
    store: Any = SimpleNamespace(namespace="default")
    found = TargetDirectory(store, RecordingTransport(*targets.values()))
    found.note({number: TargetName("default", name) for number, name in targets.items()})
    return found


async def states(app: App) -> dict[str, int]:
    """How many deliveries are in each state."""
    found: dict[str, int] = {}
    for each in await app.list(limit=10_000):
        found[each.state] = found.get(each.state, 0) + 1
    return found


async def only_delivery(app: App) -> StoredDelivery:
    """The only delivery of the store."""
    (found,) = await app.list()
    return found


def record_events(app: App, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """The events that are emitted from now on."""
    recorded: list[Event] = []
    emit = app.telemetry.emit

    def record(event: Event) -> None:
        recorded.append(event)
        emit(event)

    monkeypatch.setattr(app.telemetry, "emit", record)
    return recorded
