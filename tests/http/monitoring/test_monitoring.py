"""Monitoring over HTTP: metrics, stats, health, alerts, events."""

import asyncio
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import duly
from duly import App
from duly.composition import alert_monitor_for
from duly.errors import StoreUnavailable
from duly.surfaces.http.application import site
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.testing import VirtualClock, run_until_idle
from tests.http.conftest import Client


async def samples(client: Client) -> dict[str, float]:
    """Every sample of the metrics, by its name and labels."""
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    found = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation
        for each in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(each.labels.items()))
            found[f"{each.name}{{{labels}}}" if labels else each.name] = each.value
    return found


def failing(app: App) -> None:
    """A handler that fails if the payload requests it."""

    @app.handler("work")
    async def work(delivery: duly.Delivery[Any]) -> None:
        if delivery.payload == "bad":
            raise ValueError("no")


@pytest.mark.requirement("S3", "D11", "F11")
async def test_metrics_have_counts_and_the_current_state(
    client: Client, app: App, clock: VirtualClock
) -> None:
    failing(app)
    before = await samples(client)
    await app.deliver("work", "good")
    await app.deliver("work", "good", at=clock.now() - timedelta(seconds=90))
    await app.deliver("work", "bad", retry=duly.no_retry)
    await app.deliver("work", "bad")
    await app.deliver("work", "later", after=3600)
    await run_until_idle(app)
    clock.advance(1)
    after = await samples(client)
    grew = {name: after[name] - before.get(name, 0.0) for name in after}
    assert grew["duly_accepted_total"] == 5
    assert grew["duly_claimed_total"] == 4
    assert grew["duly_completed_total{target=work}"] == 2
    assert grew["duly_failed_total{reason=handler_exception,target=work}"] == 2
    assert (grew["duly_dead_total"], grew["duly_retried_total"]) == (1, 1)
    assert (grew["duly_late_total"], grew["duly_on_time_total"]) == (1, 3)
    assert grew["duly_lateness_seconds_count"] == 4
    assert grew["duly_lateness_seconds_bucket{le=60.0}"] == 3
    assert grew["duly_run_seconds_count"] == grew["duly_pickup_seconds_count"] == 4
    assert grew["duly_batch_size_count{call=settle}"] >= 1
    assert grew["duly_store_call_seconds_count{call=claim}"] >= 1
    assert grew["duly_tries_bucket{le=1.0}"] == 3
    assert after["duly_deliveries{state=upcoming}"] == 2
    assert after["duly_deliveries{state=dead}"] == 1
    assert after["duly_retries_waiting"] == 1
    assert after["duly_retries_next_timestamp_seconds"] > clock.now().timestamp()
    assert after["duly_store_up"] == 1
    sizes = {"duly_agenda_bytes", "duly_agenda_index_bytes"}
    assert sizes & after.keys() == (set() if app.store.single_owner else sizes)
    assert all(after[name] > 0 for name in sizes & after.keys())


@pytest.mark.requirement("S3")
async def test_labels_are_bounded_and_contain_no_url(client: Client, app: App) -> None:
    for number in range(60):
        app.telemetry.label(f"https://secret{number}.example.com")
    for number in range(60):
        app.telemetry.label(f"handler{number}")
    for target in ("https://secret.example.com", "handler3", "handler99", "endpoint:mail"):
        app.telemetry.completed_by[app.telemetry.label(target)] += 1
    text = (await client.get("/metrics")).text
    labels = set(re.findall(r'duly_completed_total\{target="([^"]*)"\}', text))
    assert labels == {"url", "other", "handler3"}
    assert "secret.example.com" not in text


@pytest.mark.requirement("S3")
async def test_metrics_query_the_store_at_most_once_a_second_and_work_without_it(
    client: Client, app: App, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = 0
    look = app.store.status.look

    async def counted(grace: timedelta) -> Any:
        nonlocal queries
        queries += 1
        return await look(grace)

    monkeypatch.setattr(app.store.status, "look", counted)
    for _ in range(3):
        await samples(client)
    assert queries == 1

    async def away(grace: timedelta) -> Any:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(app.store.status, "look", away)
    clock.advance(2)
    found = await samples(client)
    assert found["duly_store_up"] == 0
    assert "duly_workers" not in found
    assert "duly_completed_total" not in found
    health = (await client.get("/health", params={"verbose": True})).json()
    assert (health["status"], health["store"]["reachable"]) == ("store_unavailable", False)
    assert health["workers"] is None


@pytest.mark.requirement("S3", "D14")
async def test_a_store_that_hangs_is_reported_soon_and_queried_only_once(
    client: Client, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, hung = 0, asyncio.Event()

    async def hang(grace: timedelta) -> Any:
        nonlocal queries
        queries += 1
        await hung.wait()
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(app.store.status, "look", hang)
    asking = [asyncio.create_task(app.stats.namespace_status()) for _ in range(5)]
    monkeypatch.setattr("duly.surfaces.http.monitoring.health.SOON_ENOUGH", 0.01)
    monkeypatch.setattr("duly.surfaces.http.monitoring.metrics.SOON_ENOUGH", 0.01)
    assert (await samples(client))["duly_store_up"] == 0
    health = (await client.get("/health", params={"verbose": True})).json()
    assert health["store"]["reachable"] is False
    hung.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in answers] == [StoreUnavailable] * 5
    assert queries == 1
    with pytest.raises(StoreUnavailable):
        await app.stats.namespace_status()
    assert queries == 2


@pytest.mark.requirement("S3", "D12")
async def test_verbose_health_has_all_details(
    client: Client, app: App, clock: VirtualClock
) -> None:
    assert (await client.get("/health")).json() == {"status": "ok"}
    await app.deliver("work", 1)
    clock.advance(90)
    found = await whole_health(client)
    assert found["store"]["schema"] >= 11
    assert found["store"]["latency_milliseconds"] >= 0
    assert (found["due"], found["oldest_due_seconds"], found["workers"]) == (1, 90.0, 0)
    assert (found["planner_lag_seconds"], found["recovering"]) == (0.0, None)
    assert (found["circuits_open"], found["alerts"]) == ([], [])
    assert found["zones"]


async def answered(client: Client, path: str, **asked: Any) -> Any:
    """The answer; repeated if the store was too slow, as on a busy machine."""
    for _ in range(20):
        found = await client.get(path, params=asked)
        if found.status_code == 200:
            break
    return found


async def whole_health(client: Client) -> Any:
    return (await answered(client, "/health", verbose=True)).json()


@pytest.mark.requirement("S3")
async def test_the_server_is_ready_from_its_recovery_to_its_stop(
    client: Client, process_health: ProcessHealth
) -> None:
    starting = await client.get("/ready")
    assert (starting.status_code, starting.json()["ready"]) == (503, False)
    await process_health.engine.prepare()
    ready = await answered(client, "/ready")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "reason": None})
    process_health.stopping = True
    stopping = await client.get("/ready")
    assert (stopping.status_code, stopping.json()["reason"]) == (503, "stopping")


@pytest.mark.requirement("S3", "F11")
async def test_stats_have_the_current_state_and_counts(
    client: Client, app: App, clock: VirtualClock
) -> None:
    failing(app)
    await app.deliver("work", "good")
    await app.deliver("work", "bad", retry=duly.no_retry)
    await run_until_idle(app)
    await app.rollup_writer.tick()
    found = (await client.get("/v1/stats")).json()
    assert found["now"]["dead"] == 1
    assert (found["last_hour"]["completed"], found["last_hour"]["dead"]) == (1, 1)
    failed = (await client.get("/v1/stats/failures")).json()
    assert failed["reasons"] == {"handler_exception": 1}
    since = (clock.now() - timedelta(minutes=2)).isoformat()
    series = (await client.get("/v1/stats/series", params={"since": since})).json()
    assert [each["completed"] for each in series["points"]] == [0, 0, 1]
    for query in ({"step": 30}, {"step": 90}, {"since": "yesterday"}, {"until": since, "x": 1}):
        refused = await client.get("/v1/stats/series", params=query)  # type: ignore[arg-type]
        assert refused.status_code == 422, query


@pytest.mark.requirement("S4")
async def test_alerts_are_in_health_in_metrics_and_in_a_list(
    client: Client, app: App, clock: VirtualClock
) -> None:
    await app.deliver_many([("work", n) for n in range(app.settings.alert_late)])
    clock.advance(90)
    watchman = alert_monitor_for(app.parts, app)
    await watchman.tick()
    (alert,) = (await client.get("/v1/alerts", params={"raised": True})).json()["items"]
    assert (alert["kind"], alert["cleared_at"]) == ("late_deliveries", None)
    health = (await client.get("/health", params={"verbose": True})).json()
    assert [each["kind"] for each in health["alerts"]] == ["late_deliveries"]
    assert (await samples(client))["duly_alerts{kind=late_deliveries}"] == 1
    for each in await app.list(limit=1000):
        await app.cancel(each.id)
    clock.advance(10)
    await watchman.tick()
    assert (await client.get("/v1/alerts", params={"raised": True})).json()["items"] == []
    (over,) = (await client.get("/v1/alerts")).json()["items"]
    assert over["cleared_at"] is not None
    assert (await samples(client))["duly_alerts{kind=late_deliveries}"] == 0


async def read(
    app: App, process_health: ProcessHealth, headers: dict[str, str] | None = None
) -> Any:
    """The events of a stream until it ends."""
    sent: list[Any] = []
    head = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/v1/events",
        "raw_path": b"/v1/events",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), *head],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    asked, ended = asyncio.Event(), asyncio.Event()

    async def receive() -> Any:
        if not asked.is_set():
            asked.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            ended.set()

    await site(app, process_health)(scope, receive, send)
    body = b"".join(each.get("body", b"") for each in sent).decode()
    events = [part for part in body.replace("\r\n", "\n").split("\n\n") if "data:" in part]
    return [json.loads(re.search(r"^data: (.*)$", each, re.MULTILINE)[1]) for each in events]  # type: ignore[index]


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.tasks.sleep(0)


@pytest.mark.requirement("S3")
async def test_events_come_each_second_can_be_resumed_and_end_with_the_server(
    app: App, process_health: ProcessHealth, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(app)
    live = app.stats.live

    async def never(_: float) -> None:
        await asyncio.Future()

    monkeypatch.setattr(live, "_sleep", never)
    listening = asyncio.create_task(read(app, process_health))
    await until(lambda: bool(live._past))
    await app.deliver("work", "good")
    await run_until_idle(app)
    await app.rollup_writer.tick()
    clock.advance(1)
    await live.tick()
    clock.advance(1)
    await live.tick()
    again = asyncio.create_task(read(app, process_health, {"Last-Event-ID": str(live._past[0].id)}))
    await until(lambda: len(live._listeners) == 2)
    await live.stop()
    seconds = await listening
    assert sum(each["counts"]["completed"] for each in seconds) == 1
    ids = [each["id"] for each in seconds]
    assert ids == sorted(set(ids))
    assert [each["id"] for each in await again] == ids[1:]


@pytest.mark.requirement("S2", "S3")
async def test_events_end_with_the_key_of_the_request(
    app: App, process_health: ProcessHealth, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, made = app.stats.live, await app.keys.create("board")

    async def never(_: float) -> None:
        await asyncio.Future()

    monkeypatch.setattr(live, "_sleep", never)
    listening = asyncio.create_task(
        read(app, process_health, {"Authorization": f"Bearer {made.token}"})
    )
    await until(lambda: bool(live._listeners))
    await app.keys.revoke(made.id)
    clock.advance(2)
    await live.tick()
    # The event of the second in which the stream began may have been sent before.
    assert len(await asyncio.wait_for(listening, 10)) <= 1
    await live.stop()
