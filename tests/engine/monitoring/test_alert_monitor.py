"""Alerts over the life of several processes: raised once, told once, cleared once."""

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
from tests.engine.house import House

pytestmark = pytest.mark.requirement("S4")


def watchman(app: App) -> AlertMonitor:
    return alert_monitor_for(app.parts, app)


async def raised(app: App) -> list[str]:
    return [each.kind for each in await app.alerts.raised()]


async def none() -> list[Any]:
    return []


async def late(house: House, app: App, many: int = 3) -> None:
    await app.deliver_many([("work", n) for n in range(many)])
    house.clock.advance(90)


async def test_of_two_that_watch_one_raises_and_one_clears(
    any_house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (any_house.app(alert_late=3) for _ in range(2))
    for app in (first, second):
        app.expect("work")
        await app.open()
    watchmen = [watchman(first), watchman(second)]
    with caplog.at_level(logging.INFO, "duly"):
        await late(any_house, first)
        await watchmen[0].tick()
        with monkeypatch.context() as at_once:
            # The second looked before the first had written.
            at_once.setattr(second.store.alerts, "raised", none)
            await watchmen[1].tick()
        for each in watchmen:
            await each.tick()
        assert await raised(second) == ["late_deliveries"]
        for delivery in await first.list():
            await first.cancel(delivery.id)
        any_house.clock.advance(600)
        for each in watchmen * 2:
            await each.tick()
    assert await raised(first) == []
    (alert,) = await first.alerts.list()
    assert alert.cleared_at is not None
    assert alert.cleared_at > alert.raised_at
    told = [each.event for each in caplog.records]  # type: ignore[attr-defined]
    assert told == ["AlertRaised", "AlertCleared"]


async def told_but_not_noted(house: House) -> tuple[App, Alert]:
    """An app whose alert was handed to its webhook, though its row does not say so."""
    app = house.app(alert_late=2, alert_url="https://hooks.example.com/alerts")
    app.expect("work")
    await app.open()
    await late(house, app)
    await watchman(app).tick()
    (alert,) = await app.alerts.raised()
    await app.store.alerts.mark_reported(alert, "nothing")
    return app, alert


async def test_the_alert_webhook_is_a_delivery_and_is_sent_once_for_each_word(
    any_house: House,
) -> None:
    # One that crashed before it could note that it had told tells it again, in vain.
    app, alert = await told_but_not_noted(any_house)
    await watchman(app).tick()
    assert len(await app.list(key=f"duly.alert.{alert.id}.raised")) == 1
    for delivery in await app.list(target="work"):
        await app.cancel(delivery.id)
    any_house.clock.advance(2)
    for _ in range(2):
        await watchman(app).tick()
    (cleared,) = await app.list(key=f"duly.alert.{alert.id}.cleared")
    assert b'"late_deliveries"' in bytes(cleared.payload_json)
    assert cleared.url == "https://hooks.example.com/alerts"


async def test_an_alert_for_an_endpoint_that_is_not_there_is_told_in_the_log_only(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    app = house.app(alert_late=2, alert_url="nobody")
    app.expect("work")
    await app.open()
    await late(house, app)
    for _ in range(2):
        await watchman(app).tick()
    told = [each.event for each in caplog.records if each.name == "duly"]  # type: ignore[attr-defined]
    assert told.count("AlertUnreported") == 1
    assert await raised(app) == ["late_deliveries"]


async def test_a_clock_that_jumped_is_an_alert_until_it_was_quiet(any_house: House) -> None:
    app = any_house.app()
    life = await any_house.born(app)
    watching = watchman(app)
    await life.engine.worker.planner.tick()
    any_house.clock.step(120)
    await life.engine.worker.planner.tick()
    await watching.tick()
    assert await raised(app) == ["clock_jumped"]
    any_house.clock.advance(14 * 60)
    await watching.tick()
    assert await raised(app) == ["clock_jumped"]
    any_house.clock.advance(2 * 60)
    await watching.tick()
    assert await raised(app) == []


async def test_a_store_that_was_away_is_an_alert_once_it_is_back(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = house.app()
    await app.open()
    watching = watchman(app)

    async def away() -> Any:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as broken:
        app.telemetry.emit(StoreUnreachable(loop="planner", problem="gone"))
        broken.setattr(app.store.alerts, "raised", away)
        with pytest.raises(StoreUnavailable):
            await watching.tick()
    await watching.tick()
    assert await raised(app) == ["store_errors"]


async def test_dead_letters_that_grow_are_an_alert(any_house: House) -> None:
    app = any_house.app(alert_dead=2)

    @app.handler("work")
    async def work(_: Any) -> None:
        raise ValueError("no")

    life = await any_house.born(app)
    for _ in range(2):
        await app.deliver("work", retry=duly.no_retry)
    await life.engine.worker.step()
    await app.rollup_writer.tick()
    await watchman(app).tick()
    assert await raised(app) == ["dead_letters"]
    any_house.clock.advance(16 * 60)
    await watchman(app).tick()
    assert await raised(app) == []


async def test_what_happens_while_it_looks_is_raised_the_next_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = house.app()
    await app.open()
    watching, reading = watchman(app), app.store.alerts.raised

    async def meanwhile() -> Any:
        app.telemetry.emit(StoreUnreachable(loop="planner", problem="gone"))
        return await reading()

    with monkeypatch.context() as slow:
        slow.setattr(app.store.alerts, "raised", meanwhile)
        await watching.tick()
    await watching.tick()
    assert await raised(app) == ["store_errors"]


async def test_two_that_tell_of_one_alert_in_other_words_are_no_trouble(
    any_house: House, caplog: pytest.LogCaptureFixture
) -> None:
    # The second read it before the first had noted, and after more of them were late.
    app, alert = await told_but_not_noted(any_house)
    await late(any_house, app)
    await watchman(app).tick()
    assert len(await app.list(key=f"duly.alert.{alert.id}.raised")) == 1
    told = [each.event for each in caplog.records if each.name == "duly"]  # type: ignore[attr-defined]
    assert "AlertUnreported" not in told
    assert not await app.store.alerts.unreported(10)


async def test_what_was_over_before_there_was_an_alert_webhook_is_not_told(
    any_house: House,
) -> None:
    app = any_house.app(alert_late=2)
    app.expect("work")
    await app.open()
    await late(any_house, app)
    await watchman(app).tick()
    for delivery in await app.list(target="work"):
        await app.cancel(delivery.id)
    any_house.clock.advance(2)
    await watchman(app).tick()
    assert await raised(app) == []
    any_house.clock.advance(2 * 3600)
    await late(any_house, app)
    telling = any_house.app(alert_late=2, alert_url="https://hooks.example.com/alerts")
    await telling.open()
    await watchman(telling).tick()
    (alert,) = await app.alerts.raised()
    told = [each.key for each in await telling.list() if each.key is not None]
    assert told == [f"duly.alert.{alert.id}.raised"]


async def test_what_waits_for_a_dead_target_hides_nothing_that_is_late(
    any_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.stores.monitoring.status.COUNTED_UP_TO", 3)
    app = any_house.app(alert_late=2)
    app.expect("work")
    await app.open()
    await app.endpoints.add("paused", "https://example.com/")
    await app.endpoints.pause("paused")
    await app.deliver_many([(duly.endpoint("paused"), n) for n in range(5)])
    await late(any_house, app)
    await watchman(app).tick()
    assert await raised(app) == ["late_deliveries"]


async def test_an_alert_that_cannot_be_sent_is_no_reason_for_another(
    any_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = any_house.app(alert_dead=1, alert_url="https://hooks.example.com/alerts")

    async def not_found(_: Any) -> Outcome:
        return Failed(Reason.VALIDATION_FAILURE, "404", again=False)

    monkeypatch.setattr(app.webhooks, "attempt", not_found)

    @app.handler("work")
    async def work(_: Any) -> None:
        raise ValueError("no")

    life, watching = await any_house.born(app), watchman(app)
    await app.deliver("work", retry=duly.no_retry)
    for _ in range(4):
        for _ in range(3):
            await life.engine.worker.step()
            await app.rollup_writer.tick()
            await watching.tick()
            any_house.clock.advance(5)
        any_house.clock.advance(16 * 60)
    assert [each.target for each in await app.list(state=duly.State.DEAD)].count("work") == 1
    assert len(await app.list(state=duly.State.DEAD)) == 3
    (alert,) = await app.alerts.list()
    assert alert.cleared_at is not None


async def test_alerts_of_other_namespaces_are_raised_there_and_told_with_their_name(
    any_house: House, caplog: pytest.LogCaptureFixture
) -> None:
    app = any_house.app(alert_late=3, alert_url="https://example.org/alerts")
    app.expect("work")
    await app.open()
    engine = app.engine()
    (watch,) = [each for each in engine._loops if each.name == "alert monitor"]
    tenants = [app.within(f"t{number}") for number in range(6)]
    for tenant in tenants:
        tenant.expect("work")
        await late(any_house, tenant)
    with caplog.at_level(logging.INFO, "duly"):
        for _ in range(2):
            await watch.tick()
    for tenant in tenants:
        assert "late_deliveries" in await raised(tenant)
    assert await raised(app) == []
    told = [each.payload for each in await app.list()]
    assert {each["namespace"] for each in told} == {f"t{number}" for number in range(6)}
    assert {each.facts["namespace"] for each in caplog.records} >= {"t0", "t5"}  # type: ignore[attr-defined]
