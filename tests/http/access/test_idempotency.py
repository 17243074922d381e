"""Requests with the same Idempotency-Key: the same answer, and the work is done once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from duly import App, Namespace
from duly.engine.maintenance import RetentionPruner
from duly.errors import Busy, Conflict, StoreUnavailable
from duly.ports import KEPT_FOR
from duly.services.access.idempotency import IdempotentRequests
from duly.surfaces.http.monitoring.health import ProcessHealth
from duly.testing import VirtualClock
from tests.http.conftest import Client
from tests.http.ports import port

pytestmark = pytest.mark.requirement("S2")
GIVEN = {"target": "work", "payload": {"n": 1}}
KEY = {"idempotency-key": "order-17"}


async def test_the_same_key_gets_the_first_answer(app: App, client: Client) -> None:
    first = await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    second = await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    assert (first.status_code, second.status_code) == (201, 201)
    assert second.content == first.content
    assert second.headers["location"] == first.headers["location"]
    assert second.headers["content-type"] == "application/json"
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert len(await app.list()) == 1


async def test_a_key_belongs_to_one_request(app: App, client: Client) -> None:
    await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    for path, body in (
        ("/v1/deliveries", GIVEN | {"payload": 2}),
        ("/v1/deliveries/bulk", [GIVEN]),
        ("/v1/deliveries/bulk?atomic=true", [GIVEN]),
    ):
        other = await client.post(path, json=body, headers=KEY)
        assert (other.status_code, other.json()["field"]) == (422, "Idempotency-Key")
    for bad in ("", "x" * 256, "\x7f"):
        refused = await client.post("/v1/deliveries", json=GIVEN, headers={"idempotency-key": bad})
        assert refused.status_code == 422, bad
    assert len(await app.list()) == 1


async def test_a_refused_request_may_be_sent_again(app: App, client: Client) -> None:
    given = {"target": "later"}
    refused = await client.post("/v1/deliveries", json=given, headers=KEY)
    assert refused.status_code == 422
    app.expect("later")
    accepted = await client.post("/v1/deliveries", json=given, headers=KEY)
    assert accepted.status_code == 201


async def test_a_request_is_answered_even_if_its_answer_cannot_be_stored(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("it went away just then")

    with monkeypatch.context() as going:
        going.setattr(app.store.idempotency, "finish", away)
        going.setattr(app.store.idempotency, "abandon", away)
        first = await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
        refused = await client.post("/v1/deliveries", json={}, headers={"idempotency-key": "no"})
        path = f"/v1/deliveries/{first.json()['id']}/cancel"
        cancelled = await client.post(path, headers={"idempotency-key": "cancel"})
    statuses = [each.status_code for each in (first, refused, cancelled)]
    assert statuses == [201, 422, 200]
    repeated = await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    assert repeated.json()["id"] == first.json()["id"]
    assert len(await app.list()) == 1


async def test_a_bulk_request_gets_its_first_answer_too(app: App, client: Client) -> None:
    given = [GIVEN, {"target": "nobody"}, GIVEN]
    answers = [await client.post("/v1/deliveries/bulk", json=given, headers=KEY) for _ in range(2)]
    assert answers[0].json()["accepted"] == 2
    assert answers[0].content == answers[1].content
    assert len(await app.list()) == 2


@pytest.mark.parametrize(
    "path", ["/v1/deliveries", "/v1/deliveries/bulk", "/v1/deliveries/bulk?atomic=true"]
)
async def test_a_repeated_request_after_a_crash_makes_nothing_twice(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    async def dies(*_: object) -> None:
        raise asyncio.CancelledError

    body = [GIVEN, GIVEN] if "bulk" in path else GIVEN
    with monkeypatch.context() as dying:
        dying.setattr(app.store.idempotency, "finish", dies)
        with pytest.raises(asyncio.CancelledError):
            await client.post(path, json=body, headers=KEY)
    stored = await app.list()
    assert stored
    repeated = await client.post(path, json=body, headers=KEY)
    assert repeated.status_code in (200, 201), repeated.text
    assert stored[-1].id in repeated.text
    assert await app.list() == stored


async def test_a_refusal_in_between_does_not_forget_the_key(
    app: App, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dies(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as dying:
        dying.setattr(app.store.idempotency, "finish", dies)
        with pytest.raises(asyncio.CancelledError):
            await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    with monkeypatch.context() as crowded:
        crowded.setattr(Namespace, "deliver", full)
        assert (await client.post("/v1/deliveries", json=GIVEN, headers=KEY)).status_code == 429
    repeated = await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    assert [each.id for each in await app.list()] == [repeated.json()["id"]]


async def test_a_refusal_does_not_forget_the_request_of_another_server(app: App) -> None:
    elsewhere = IdempotentRequests(app.store, app.chance.delivery_id)
    first = await app.requests.begin("k", "f", repeatable=True)
    second = await elsewhere.begin("k", "f", repeatable=True)
    await app.requests.finish(first, 422, {}, b"")
    third = await app.requests.begin("k", "f", repeatable=True)
    assert first.seed == second.seed == third.seed
    await elsewhere.finish(second, 201, {}, b"{}")
    app.requests.leave(third)
    assert (await app.requests.begin("k", "f", repeatable=True)).status == 201


async def test_a_key_forgotten_during_a_takeover_starts_a_new_request(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await app.requests.begin("k", "f", repeatable=True)
    take_over = app.store.idempotency.take_over

    async def too_late(*arguments: Any, **options: Any) -> bool:
        await app.requests.finish(first, 422, {}, b"")
        return await take_over(*arguments, **options)

    monkeypatch.setattr(app.store.idempotency, "take_over", too_late)
    elsewhere = IdempotentRequests(app.store, app.chance.delivery_id)
    second = await elsewhere.begin("k", "f", repeatable=True)
    assert (second.status, second.seed == first.seed) == (None, False)


def full(*_: object, **__: object) -> None:
    raise Busy("many wait")


async def test_a_stopping_server_records_no_key(
    app: App, client: Client, process_health: ProcessHealth
) -> None:
    process_health.stopping = True
    new = {"name": "hook", "url": "https://example.org/"}
    assert (await client.post("/v1/endpoints", json=new, headers=KEY)).status_code == 503
    process_health.stopping = False
    assert (await client.post("/v1/endpoints", json=new, headers=KEY)).status_code == 201


async def test_a_reading_request_does_not_use_a_key_of_others(
    database_url: str, clock: VirtualClock
) -> None:
    async with port(database_url, clock, host="0.0.0.0") as found:
        reads, operates = await found.token("read"), await found.token("operate")
        rule = {"rule": {"every": "1h"}}
        for path, key, body in (
            ("/v1/schedules/explain", reads, rule),
            ("/v1/deliveries", operates, GIVEN),
            ("/v1/schedules/explain", reads, rule),
        ):
            answer = await found.request(path, "POST", key=key, json=body, headers=KEY)
            assert answer.status_code in (200, 201), answer.text


async def test_two_requests_at_the_same_moment_make_one_delivery(app: App, client: Client) -> None:
    answers = await asyncio.gather(
        *(client.post("/v1/deliveries", json=GIVEN, headers=KEY) for _ in range(5))
    )
    statuses = sorted(each.status_code for each in answers)
    assert statuses[0] == 201
    assert set(statuses) <= {201, 409}
    waits = {each.headers.get("retry-after") for each in answers if each.status_code == 409}
    assert waits <= {"1"}, "a repeated request gets the first answer"
    assert len(await app.list()) == 1


async def test_a_request_that_is_not_repeatable_is_taken_over_only_after_a_while(
    app: App, clock: VirtualClock
) -> None:
    first = await app.requests.begin("k", "f", repeatable=False)
    app.requests.leave(first)
    with pytest.raises(Conflict):
        await app.requests.begin("k", "f", repeatable=False)
    clock.advance(31)
    second = await app.requests.begin("k", "f", repeatable=False)
    assert (second.seed, second.status) == (first.seed, None)


async def test_a_key_is_forgotten_after_a_day(
    app: App, client: Client, clock: VirtualClock
) -> None:
    first = await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    clock.advance(timedelta(hours=24, seconds=1))
    second = await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    assert second.json()["id"] != first.json()["id"]
    forgetter = RetentionPruner([(app.store.idempotency.prune, KEPT_FOR)], interval=9.0, batch=10)
    await forgetter.tick()
    third = await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    assert third.content == second.content
    clock.advance(timedelta(hours=25))
    assert await app.store.idempotency.prune(KEPT_FOR, 10) == 1
