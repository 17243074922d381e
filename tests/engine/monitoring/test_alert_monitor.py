"""Alerts across several processes: raised once, reported once, cleared once."""

import logging
from typing import Any

import pytest

import duly
from duly import App
from duly.composition import alert_monitor_for
from duly.domain.deliveries.outcomes import Failed, Outcome
from duly.domain.events import StoreUnreachable
from duly.engine.monitoring.alert_monitor import AlertMonitor
from duly.errors import StoreUnavailable
from duly.records.alert import Alert
from duly.records.reason import Reason
from tests.engine.cluster import Cluster

pytestmark = pytest.mark.requirement("S4")


def monitor_of(app: App) -> AlertMonitor:
    return alert_monitor_for(app.parts, app)


async def raised(app: App) -> list[str]:
    return [each.kind for each in await app.alerts.raised()]


async def none() -> list[Any]:
    return []


async def late(cluster: Cluster, app: App, many: int = 3) -> None:
    await app.deliver_many([("work", n) for n in range(many)])
    cluster.clock.advance(90)


async def test_of_two_monitors_one_raises_and_one_clears(
    any_cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (any_cluster.app(alert_late=3) for _ in range(2))
    for app in (first, second):
        app.expect("work")
        await app.open()
    monitors = [monitor_of(first), monitor_of(second)]
    with caplog.at_level(logging.INFO, "duly"):
        await late(any_cluster, first)
        await monitors[0].tick()
        with monkeypatch.context() as context:
            # The second read before the first had written.
            context.setattr(second.store.alerts, "raised", none)
            await monitors[1].tick()
        for each in monitors:
            await each.tick()
        assert await raised(second) == ["late_deliveries"]
        for delivery in await first.list():
            await first.cancel(delivery.id)
        any_cluster.clock.advance(600)
        for each in monitors * 2:
            await each.tick()
    assert await raised(first) == []
    (alert,) = await first.alerts.list()
    assert alert.cleared_at is not None
    assert alert.cleared_at > alert.raised_at
    logged = [each.event for each in caplog.records]  # type: ignore[attr-defined]
    assert logged == ["AlertRaised", "AlertCleared"]


async def reported_but_not_marked(cluster: Cluster) -> tuple[App, Alert]:
    """An app whose alert was delivered to its webhook but is not marked as reported."""
    app = cluster.app(alert_late=2, alert_url="https://hooks.example.com/alerts")
    app.expect("work")
    await app.open()
    await late(cluster, app)
    await monitor_of(app).tick()
    (alert,) = await app.alerts.raised()
    await app.store.alerts.mark_reported(alert, "nothing")
    return app, alert


async def test_the_alert_webhook_is_delivered_once_for_each_change(
    any_cluster: Cluster,
) -> None:
    # A process that crashed before it marked the alert reports it again, without effect.
    app, alert = await reported_but_not_marked(any_cluster)
    await monitor_of(app).tick()
    assert len(await app.list(key=f"duly.alert.{alert.id}.raised")) == 1
    for delivery in await app.list(target="work"):
        await app.cancel(delivery.id)
    any_cluster.clock.advance(2)
    for _ in range(2):
        await monitor_of(app).tick()
    (cleared,) = await app.list(key=f"duly.alert.{alert.id}.cleared")
    assert b'"late_deliveries"' in bytes(cleared.payload_json)
    assert cleared.url == "https://hooks.example.com/alerts"


async def test_an_alert_for_an_unknown_endpoint_is_only_logged(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    app = cluster.app(alert_late=2, alert_url="unknown")
    app.expect("work")
    await app.open()
    await late(cluster, app)
    for _ in range(2):
        await monitor_of(app).tick()
    logged = [each.event for each in caplog.records if each.name == "duly"]  # type: ignore[attr-defined]
    assert logged.count("AlertUnreported") == 1
    assert await raised(app) == ["late_deliveries"]


async def test_a_clock_step_is_an_alert_until_the_clock_was_stable(any_cluster: Cluster) -> None:
    app = any_cluster.app()
    process = await any_cluster.start_worker(app)
    monitor = monitor_of(app)
    await process.engine.worker.planner.tick()
    any_cluster.clock.step(120)
    await process.engine.worker.planner.tick()
    await monitor.tick()
    assert await raised(app) == ["clock_jumped"]
    any_cluster.clock.advance(14 * 60)
    await monitor.tick()
    assert await raised(app) == ["clock_jumped"]
    any_cluster.clock.advance(2 * 60)
    await monitor.tick()
    assert await raised(app) == []


async def test_an_unavailable_store_is_an_alert_when_it_is_available_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = cluster.app()
    await app.open()
    monitor = monitor_of(app)

    async def unavailable() -> Any:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as broken:
        app.telemetry.emit(StoreUnreachable(loop="planner", problem="gone"))
        broken.setattr(app.store.alerts, "raised", unavailable)
        with pytest.raises(StoreUnavailable):
            await monitor.tick()
    await monitor.tick()
    assert await raised(app) == ["store_errors"]


async def test_growing_dead_letters_are_an_alert(any_cluster: Cluster) -> None:
    app = any_cluster.app(alert_dead=2)

    @app.handler("work")
    async def work(_: Any) -> None:
        raise ValueError("no")

    process = await any_cluster.start_worker(app)
    for _ in range(2):
        await app.deliver("work", retry=duly.no_retry)
    await process.engine.worker.step()
    await app.rollup_writer.tick()
    await monitor_of(app).tick()
    assert await raised(app) == ["dead_letters"]
    any_cluster.clock.advance(16 * 60)
    await monitor_of(app).tick()
    assert await raised(app) == []


async def test_a_problem_during_a_tick_is_raised_by_the_next(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = cluster.app()
    await app.open()
    monitor, reading = monitor_of(app), app.store.alerts.raised

    async def meanwhile() -> Any:
        app.telemetry.emit(StoreUnreachable(loop="planner", problem="gone"))
        return await reading()

    with monkeypatch.context() as slow:
        slow.setattr(app.store.alerts, "raised", meanwhile)
        await monitor.tick()
    await monitor.tick()
    assert await raised(app) == ["store_errors"]


async def test_two_reports_of_one_alert_with_different_texts_do_no_harm(
    any_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    # The second read the alert before the first marked it, and after more deliveries were late.
    app, alert = await reported_but_not_marked(any_cluster)
    await late(any_cluster, app)
    await monitor_of(app).tick()
    assert len(await app.list(key=f"duly.alert.{alert.id}.raised")) == 1
    logged = [each.event for each in caplog.records if each.name == "duly"]  # type: ignore[attr-defined]
    assert "AlertUnreported" not in logged
    assert not await app.store.alerts.unreported(10)


async def test_an_alert_cleared_before_there_was_a_webhook_is_not_reported(
    any_cluster: Cluster,
) -> None:
    app = any_cluster.app(alert_late=2)
    app.expect("work")
    await app.open()
    await late(any_cluster, app)
    await monitor_of(app).tick()
    for delivery in await app.list(target="work"):
        await app.cancel(delivery.id)
    any_cluster.clock.advance(2)
    await monitor_of(app).tick()
    assert await raised(app) == []
    any_cluster.clock.advance(2 * 3600)
    await late(any_cluster, app)
    reporting = any_cluster.app(alert_late=2, alert_url="https://hooks.example.com/alerts")
    await reporting.open()
    await monitor_of(reporting).tick()
    (alert,) = await app.alerts.raised()
    keys = [each.key for each in await reporting.list() if each.key is not None]
    assert keys == [f"duly.alert.{alert.id}.raised"]


async def test_deliveries_of_a_paused_endpoint_do_not_hide_late_ones(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.stores.monitoring.status.COUNTED_UP_TO", 3)
    app = any_cluster.app(alert_late=2)
    app.expect("work")
    await app.open()
    await app.endpoints.add("paused", "https://example.com/")
    await app.endpoints.pause("paused")
    await app.deliver_many([(duly.endpoint("paused"), n) for n in range(5)])
    await late(any_cluster, app)
    await monitor_of(app).tick()
    assert await raised(app) == ["late_deliveries"]


async def test_an_alert_that_cannot_be_sent_raises_no_other_alert(
    any_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = any_cluster.app(alert_dead=1, alert_url="https://hooks.example.com/alerts")

    async def not_found(_: Any) -> Outcome:
        return Failed(Reason.VALIDATION_FAILURE, "404", again=False)

    monkeypatch.setattr(app.webhooks, "attempt", not_found)

    @app.handler("work")
    async def work(_: Any) -> None:
        raise ValueError("no")

    process, monitor = await any_cluster.start_worker(app), monitor_of(app)
    await app.deliver("work", retry=duly.no_retry)
    for _ in range(4):
        for _ in range(3):
            await process.engine.worker.step()
            await app.rollup_writer.tick()
            await monitor.tick()
            any_cluster.clock.advance(5)
        any_cluster.clock.advance(16 * 60)
    assert [each.target for each in await app.list(state=duly.State.DEAD)].count("work") == 1
    assert len(await app.list(state=duly.State.DEAD)) == 3
    (alert,) = await app.alerts.list()
    assert alert.cleared_at is not None


async def test_alerts_of_other_namespaces_are_raised_there_and_reported_with_their_name(
    any_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    app = any_cluster.app(alert_late=3, alert_url="https://example.org/alerts")
    app.expect("work")
    await app.open()
    engine = app.engine()
    (monitor,) = [each for each in engine._loops if each.name == "alert monitor"]
    tenants = [app.within(f"t{number}") for number in range(6)]
    for tenant in tenants:
        tenant.expect("work")
        await late(any_cluster, tenant)
    with caplog.at_level(logging.INFO, "duly"):
        for _ in range(2):
            await monitor.tick()
    for tenant in tenants:
        assert "late_deliveries" in await raised(tenant)
    assert await raised(app) == []
    reports = [each.payload for each in await app.list()]
    assert {each["namespace"] for each in reports} == {f"t{number}" for number in range(6)}
    assert {each.facts["namespace"] for each in caplog.records} >= {"t0", "t5"}  # type: ignore[attr-defined]
