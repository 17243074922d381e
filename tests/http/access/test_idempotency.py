"""The same Idempotency-Key again: the same answer, and nothing more is done."""

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
from tests.http.doors import port

pytestmark = pytest.mark.requirement("S2")
GIVEN = {"target": "work", "payload": {"n": 1}}
KEY = {"idempotency-key": "order-17"}


async def test_the_same_key_is_answered_as_the_first_time(app: App, client: Client) -> None:
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


async def test_what_was_refused_may_be_sent_again(app: App, client: Client) -> None:
    given = {"target": "later"}
    refused = await client.post("/v1/deliveries", json=given, headers=KEY)
    assert refused.status_code == 422
    app.expect("later")
    accepted = await client.post("/v1/deliveries", json=given, headers=KEY)
    assert accepted.status_code == 201


async def test_what_was_done_is_told_though_the_answer_could_not_be_kept(
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
    again = await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    assert again.json()["id"] == first.json()["id"]
    assert len(await app.list()) == 1


async def test_a_bulk_is_answered_again_too(app: App, client: Client) -> None:
    given = [GIVEN, {"target": "nobody"}, GIVEN]
    answers = [await client.post("/v1/deliveries/bulk", json=given, headers=KEY) for _ in range(2)]
    assert answers[0].json()["accepted"] == 2
    assert answers[0].content == answers[1].content
    assert len(await app.list()) == 2


@pytest.mark.parametrize(
    "path", ["/v1/deliveries", "/v1/deliveries/bulk", "/v1/deliveries/bulk?atomic=true"]
)
async def test_whoever_takes_over_from_a_dead_one_makes_nothing_twice(
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
    again = await client.post(path, json=body, headers=KEY)
    assert again.status_code in (200, 201), again.text
    assert stored[-1].id in again.text
    assert await app.list() == stored


async def test_who_is_refused_in_between_does_not_make_it_forgotten(
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
    again = await client.post("/v1/deliveries", json=GIVEN, headers=KEY)
    assert [each.id for each in await app.list()] == [again.json()["id"]]


async def test_who_refuses_does_not_forget_what_another_server_carries_out(app: App) -> None:
    elsewhere = IdempotentRequests(app.store, app.chance.delivery_id)
    first = await app.requests.begin("k", "f", repeatable=True)
    second = await elsewhere.begin("k", "f", repeatable=True)
    await app.requests.finish(first, 422, {}, b"")
    third = await app.requests.begin("k", "f", repeatable=True)
    assert first.seed == second.seed == third.seed
    await elsewhere.finish(second, 201, {}, b"{}")
    app.requests.leave(third)
    assert (await app.requests.begin("k", "f", repeatable=True)).status == 201


async def test_what_is_forgotten_while_another_asks_is_begun_anew(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await app.requests.begin("k", "f", repeatable=True)
    take_over = app.store.idempotency.take_over

    async def too_late(*asked: Any, **how: Any) -> bool:
        await app.requests.finish(first, 422, {}, b"")
        return await take_over(*asked, **how)

    monkeypatch.setattr(app.store.idempotency, "take_over", too_late)
    elsewhere = IdempotentRequests(app.store, app.chance.delivery_id)
    second = await elsewhere.begin("k", "f", repeatable=True)
    assert (second.status, second.seed == first.seed) == (None, False)


def full(*_: object, **__: object) -> None:
    raise Busy("many wait")


async def test_a_server_that_stops_notes_nothing(
    app: App, client: Client, pulse: ProcessHealth
) -> None:
    pulse.stopping = True
    new = {"name": "hook", "url": "https://example.org/"}
    assert (await client.post("/v1/endpoints", json=new, headers=KEY)).status_code == 503
    pulse.stopping = False
    assert (await client.post("/v1/endpoints", json=new, headers=KEY)).status_code == 201


async def test_who_only_reads_takes_no_key_from_others(
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
            answer = await found.ask(path, "POST", key=key, json=body, headers=KEY)
            assert answer.status_code in (200, 201), answer.text


async def test_two_at_the_same_moment_make_one(app: App, client: Client) -> None:
    answers = await asyncio.gather(
        *(client.post("/v1/deliveries", json=GIVEN, headers=KEY) for _ in range(5))
    )
    statuses = sorted(each.status_code for each in answers)
    assert statuses[0] == 201
    assert set(statuses) <= {201, 409}
    waits = {each.headers.get("retry-after") for each in answers if each.status_code == 409}
    assert waits <= {"1"}, "who waits and asks again gets the answer to the first"
    assert len(await app.list()) == 1


async def test_what_cannot_be_repeated_is_taken_over_only_after_a_while(
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
