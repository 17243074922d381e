"""Workers that live and die inside a test, on one database and one clock."""

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
from duly.engine.work_signal import WorkSignal
from duly.ports import TargetName
from duly.records.delivery import Delivery as Booked
from duly.testing import RecordingTransport, VirtualClock


class Gate:
    """A handler that says when it was entered and leaves when it is let."""

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


class Life:
    """One process: an app, and an engine that was prepared but has no loops."""

    def __init__(self, app: App, engine: Engine) -> None:
        self.app = app
        self.engine = engine

    async def tick(self) -> int:
        """Claim for all free slots and let what came begin; returns how many run."""
        worker, before = self.engine.worker, -1
        while worker.runner.running > before:
            before = worker.runner.running
            worker.signal.hint()
            await worker.dispatcher.tick()
            await self.breathe()
        return worker.runner.running

    async def breathe(self) -> None:
        """Let every task go as far as it can without waiting for the world."""
        for _ in range(5):
            await asyncio.tasks.sleep(0)

    async def finish(self) -> None:
        """Wait for what runs and settle it."""
        await self.engine.worker.runner.drain(None)
        await self.engine.worker.settler.flush()

    async def kill(self) -> None:
        """Die without a word: nothing is settled, released or ended."""
        await self.engine.worker.runner.drain(0)
        await self.app.close()


class House:
    """Apps that share a database."""

    def __init__(self, url: str, clock: VirtualClock) -> None:
        self.url = url
        self.clock = clock
        self._apps: list[App] = []

    def app(self, **settings: Any) -> App:
        """A new app, as another process would make it."""
        app = App(self.url, clock=self.clock, environment={}, **settings)
        self._apps.append(app)
        return app

    async def born(self, app: App) -> Life:
        """Open the app and prepare a worker."""
        await app.open()
        engine = app.engine(stepped=True)
        await engine.prepare()
        return Life(app, engine)

    async def close(self) -> None:
        for app in self._apps:
            await app.close()


def admission(
    gates: Any, targets: Mapping[int, str] | None = None, *, concurrency: int
) -> AdmissionControl:
    """Admission control for worker 1, which knows these targets."""
    membership: Any = SimpleNamespace(worker=1)
    return AdmissionControl(
        gates, lambda _: None, directory(targets or {}), WorkSignal(), membership, concurrency
    )


def directory(targets: Mapping[int, str]) -> TargetDirectory:
    """A directory of these targets, all of them in reach."""
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


async def only(app: App) -> Booked:
    """The one delivery there is."""
    (found,) = await app.list()
    return found


def heard(app: App, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """What is told from now on."""
    told: list[Event] = []
    emit = app.telemetry.emit

    def listen(event: Event) -> None:
        told.append(event)
        emit(event)

    monkeypatch.setattr(app.telemetry, "emit", listen)
    return told
