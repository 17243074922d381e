"""Events of a worker about another namespace have that namespace's name."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Sequence
from typing import Any

import pytest

import duly
from duly import Delivery
from duly.domain.deliveries.outcomes import Completed, Failed
from duly.domain.events import Event
from duly.records.reason import Reason
from duly.testing import RecordingTransport
from duly.transports.handlers import deadlines
from tests.engine.cluster import Cluster, WorkerProcess, record_events
from tests.stores.store_probe import StoreProbe


def namespaces_of(events: Sequence[Event], kind: str) -> list[str | None]:
    return [each.namespace for each in events if type(each).__name__ == kind]


@pytest.mark.requirement("F5")
@pytest.mark.parametrize("namespace", ["two", "default"])
async def test_an_overrun_has_the_namespace(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, namespace: str
) -> None:
    monkeypatch.setattr(deadlines, "FIRST_AGAIN", 0.01)
    app, leave = cluster.app(), threading.Event()

    events: list[Event] = []
    overran = asyncio.Event()

    def emit(event: Event) -> None:
        events.append(event)
        overran.set()

    monkeypatch.setattr(app.handlers, "_emit", emit)

    @app.handler("slow", timeout=0.02, retry=duly.no_retry)
    def slow(_: Delivery[Any]) -> None:
        leave.wait(20)

    process = await cluster.start_worker(app)
    await app.within(namespace).deliver("slow", {})
    await process.tick()
    async with asyncio.timeout(20):
        await overran.wait()
    leave.set()
    await process.finish()
    assert namespaces_of(events, "HandlerOverran") == [
        None if namespace == "default" else namespace
    ]


@pytest.mark.requirement("C5")
async def test_circuit_and_endpoint_events_have_the_namespace(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = any_cluster.app()
    events = record_events(app, monkeypatch)
    failed = [Failed(Reason.TRANSPORT_UNAVAILABLE, "no answer")] * 20
    answers = [*failed, Completed(), Failed(Reason.UNKNOWN, "410", gone=True)]
    await app.open()
    tenant = app.within("two")
    await tenant.endpoints.add("old", "https://example.org/old")
    engine = app.engine(RecordingTransport("endpoint:old", answers=answers), stepped=True)
    await engine.prepare()
    await tenant.deliver_many([(duly.endpoint("old"), None)] * 22)
    for _ in range(60):
        any_cluster.clock.advance(3600)
        await engine.worker.step()
        await engine.worker.admission.tick()
    for kind in ("CircuitOpened", "CircuitClosed", "EndpointDisabled"):
        assert set(namespaces_of(events, kind)) == {"two"}, kind
    await WorkerProcess(app, engine).kill()


@pytest.mark.requirement("C6")
async def test_an_unreadable_secret_has_the_namespace(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
    before = cluster.app(secret_key=one)
    async with before:
        for each in (before, before.within("two")):
            await each.endpoints.add("billing", "https://example.org/in")
    app = cluster.app(secret_key=other)
    events: list[Event] = []
    monkeypatch.setattr(app.endpoint_cache, "_emit", events.append)
    async with app:
        for namespace in ("default", "two"):
            assert await app.endpoint_cache.reach("billing", namespace) is None
    assert namespaces_of(events, "SecretUnreadable") == [None, "two"]


@pytest.mark.requirement("D3")
async def test_an_unreadable_plan_and_a_suspect_have_the_namespace(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = any_cluster.app()
    events = record_events(app, monkeypatch)

    @app.handler("work", retry=duly.no_retry)
    async def work(_: Delivery[Any]) -> None:
        raise ValueError("no")

    process = await any_cluster.start_worker(app)
    bad = await app.within("two").deliver("work", {})
    probe = StoreProbe(app.store, any_cluster.clock)  # type: ignore[arg-type]
    await probe.sql(f"update duly.deliveries set retry = '{{nonsense' where id = '{bad.id}'")
    place = probe.agenda_id(bad.id)
    await probe.sql(f"update duly.agenda set crashes = 2, priority = 0 where delivery = {place}")
    await process.engine.worker.step()
    assert namespaces_of(events, "SuspectRuns") == ["two"]
    assert set(namespaces_of(events, "PlanUnreadable")) == {"two"}
