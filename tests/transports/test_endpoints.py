"""Endpoints with a real receiver, on both stores: states, circuits, limits, secrets, edits."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Collection
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App
from duly.records.endpoint import Circuit
from duly.testing import VirtualClock, run_until_idle
from tests.transports.receiver import Talk, answer, receiver

KEY, OTHER_KEY = (base64.b64encode(bytes([each]) * 32).decode() for each in (7, 8))
MakeApp = Callable[..., App]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def make_app(database_url: str, clock: VirtualClock) -> MakeApp:
    def make(**settings: Any) -> App:
        allowed = {"egress_allow": "127.0.0.1/32"} | settings
        return App(database_url, clock=clock, environment={}, **allowed)

    return make


@pytest.fixture
async def app(make_app: MakeApp) -> AsyncIterator[App]:
    async with make_app() as opened:
        yield opened


class Answers:
    """A server that answers with a status that the test can change."""

    def __init__(self, status: int = 204) -> None:
        self.status = status

    async def talk(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(self.status))


def talk(status: int) -> Talk:
    return Answers(status).talk


async def deliver(app: App, many: int = 1, **options: Any) -> list[str]:
    there = duly.endpoint("billing")
    return [(await app.deliver(there, {"n": n}, **options)).id for n in range(many)]


async def states(app: App, ids: list[str]) -> list[str]:
    return [(await app.get(each)).state.value for each in ids]


@pytest.mark.requirement("C5", "C6")
async def test_deliveries_to_an_endpoint_are_signed_with_its_secret(app: App) -> None:
    async with receiver() as there:
        added = await app.endpoints.add(
            "billing", there.url("/in"), method="PUT", headers={"X-Team": "7"}
        )
        (id,) = await deliver(app)
        await run_until_idle(app)
    (taken,) = there.taken
    assert taken.line == "PUT /in HTTP/1.1"
    assert taken.headers["x-team"] == "7"
    known = duly.verify(taken.body, taken.headers, added.secret, now=app.clock.now())
    assert known == id
    assert await states(app, [id]) == ["completed"]


@pytest.mark.requirement("C8")
@pytest.mark.parametrize("how", ["pause", "410"])
async def test_deliveries_to_a_paused_or_failing_endpoint_wait_and_none_is_lost(
    app: App, how: str
) -> None:
    server = Answers(410)
    async with receiver(server.talk) as there:
        await app.endpoints.add("billing", there.url("/"))
        if how == "pause":
            paused = await app.endpoints.pause("billing", "they are moving")
            assert (paused.state, paused.state_reason) == ("paused", "they are moving")
        else:
            (first,) = await deliver(app)
            await run_until_idle(app)
            assert await states(app, [first]) == ["dead"]
            disabled = await app.endpoints.get("billing")
            assert (disabled.state, disabled.state_reason) == ("disabled", "it answered 410 Gone")
        taken = len(there.taken)
        ids = await deliver(app, 5)
        assert await run_until_idle(app, within=86400) == 0
        assert await states(app, ids) == ["pending"] * 5
        assert len(there.taken) == taken
        server.status = 204
        await app.endpoints.resume("billing")
        await run_until_idle(app)
        assert await states(app, ids) == ["completed"] * 5


@pytest.mark.requirement("F9")
async def test_an_open_circuit_allows_one_probe_and_closes_on_success(
    app: App, clock: VirtualClock
) -> None:
    server = Answers(503)
    async with receiver(server.talk) as there:
        await app.endpoints.add("billing", there.url("/"), in_flight=5)
        ids = await deliver(app, 30)
        assert await run_until_idle(app) == 5
        circuit = (await app.endpoints.get("billing")).circuit
        assert (circuit.state, circuit.failures) == (Circuit.OPEN, 5)
        clock.advance(9)
        assert await run_until_idle(app) == 0
        clock.advance(1)
        assert await run_until_idle(app) == 1, "exactly one probe"
        attempts = [(await app.get(each)).attempt for each in ids]
        assert sum(attempts) == 6, "waiting deliveries spend no attempt"
        server.status = 200
        clock.advance(20)
        assert await run_until_idle(app, within=3600) == 30
        assert (await app.endpoints.get("billing")).circuit.state is Circuit.CLOSED
        assert await states(app, ids) == ["completed"] * 30


@pytest.mark.requirement("F9")
async def test_a_plain_url_has_a_circuit_too_shared_by_all_workers(
    make_app: MakeApp, clock: VirtualClock
) -> None:
    async with make_app() as app, receiver(talk(500)) as there:
        webhook = duly.webhook(there.url("/"))
        for _ in range(5):
            await app.deliver(webhook)
        assert await run_until_idle(app) == 5
        await app.deliver(webhook)
    async with make_app() as another:
        assert await run_until_idle(another) == 0
        clock.advance(10)
        assert await run_until_idle(another) == 1


@pytest.mark.requirement("F9")
async def test_refusals_of_single_deliveries_do_not_open_the_circuit(app: App) -> None:
    async with receiver(talk(400)) as there:
        await app.endpoints.add("billing", there.url("/"))
        ids = await deliver(app, 20)
        assert await run_until_idle(app) == 20
        assert await states(app, ids) == ["dead"] * 20
        assert (await app.endpoints.get("billing")).circuit.state is Circuit.CLOSED


@pytest.mark.requirement("F9")
async def test_five_days_of_only_failures_disable_it_and_are_logged(
    app: App, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiver(talk(500)) as there:
        await app.endpoints.add("billing", there.url("/"))
        for _ in range(6):
            ids = await deliver(app, 5)
            await run_until_idle(app, within=3600)
            clock.advance(86400)
        endpoint = await app.endpoints.get("billing")
    assert endpoint.state == "disabled"
    assert str(endpoint.state_reason).startswith("all attempts failed since 2026-01-01")
    assert "endpoint billing is disabled: all attempts failed" in caplog.text
    assert "endpoint.disabled" in [each.action for each in await app.audit.list()]
    assert "pending" in await states(app, ids), "waiting deliveries still wait"


@pytest.mark.requirement("C6")
async def test_a_rotated_secret_overlaps_with_the_old_one_for_a_day(
    app: App, clock: VirtualClock
) -> None:
    async with receiver() as there:
        first = await app.endpoints.add("billing", there.url("/"))
        second = await app.endpoints.rotate("billing")
        await deliver(app)
        await run_until_idle(app)
        clock.advance(timedelta(hours=25))
        await deliver(app)
        await run_until_idle(app)
    during, after = there.taken
    for secret in (first.secret, second.secret):
        duly.verify(during.body, during.headers, secret, now=clock.now() - timedelta(hours=25))
    duly.verify(after.body, after.headers, second.secret, now=clock.now())
    with pytest.raises(duly.SignatureRefused):
        duly.verify(after.body, after.headers, first.secret, now=clock.now())


@pytest.mark.requirement("C6")
async def test_secrets_are_sealed_at_rest_and_resealed_with_a_new_key(make_app: MakeApp) -> None:
    async with receiver() as there:
        async with make_app(secret_key=KEY) as app:
            added = await app.endpoints.add("billing", there.url("/"))
            (sealed,) = (await app.store.endpoints.get("billing")).secrets
            assert added.secret not in sealed.text
            assert sealed.key is not None
            assert [each.sealed_with for each in added.secrets] == [sealed.key]
            assert added.secret not in repr(added)
        async with make_app(secret_key=f"{OTHER_KEY} {KEY}") as app:
            assert await app.endpoints.reseal("billing")
            assert not await app.endpoints.reseal("billing"), "nothing is left to reseal"
        async with make_app(secret_key=OTHER_KEY) as app:
            await deliver(app)
            await run_until_idle(app)
            now = app.clock.now()
    (taken,) = there.taken
    assert duly.verify(taken.body, taken.headers, added.secret, now=now)


@pytest.mark.requirement("C6")
async def test_without_the_key_deliveries_wait_and_the_log_has_the_reason(
    make_app: MakeApp, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiver() as there:
        async with make_app(secret_key=KEY) as app:
            await app.endpoints.add("billing", there.url("/"))
            ids = await deliver(app, 3)
        async with make_app(secret_key=OTHER_KEY) as app:
            await run_until_idle(app)
            assert await states(app, ids) == ["pending"] * 3
            stored = await app.get(ids[0])
            assert stored.attempt == 0
            assert stored.next_at == clock.now() + timedelta(seconds=15), "not retried every second"
        assert "which is not in DULY_SECRET_KEY; add it" in caplog.text
        clock.advance(20)
        async with make_app(secret_key=KEY) as app:
            await run_until_idle(app)
            assert await states(app, ids) == ["completed"] * 3


@pytest.mark.requirement("C5")
async def test_an_edit_applies_to_waiting_deliveries(app: App, clock: VirtualClock) -> None:
    async with receiver(talk(500)) as old, receiver() as new:
        await app.endpoints.add("billing", old.url("/old"), retry=duly.delays(60))
        ids = await deliver(app, 2)
        await run_until_idle(app)
        await app.endpoints.edit("billing", url=new.url("/new"), headers={"X-New": "1"})
        clock.advance(60)
        await run_until_idle(app)
    assert [each.line.split()[1] for each in old.taken] == ["/old"] * 2
    assert [each.line.split()[1] for each in new.taken] == ["/new"] * 2
    assert {each.headers["x-new"] for each in new.taken} == {"1"}
    assert await states(app, ids) == ["completed"] * 2


@pytest.mark.requirement("C5", "C8")
async def test_its_own_plan_is_used_even_if_others_are_read_meanwhile(
    app: App, clock: VirtualClock
) -> None:
    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clock.advance(2)
        assert await app.endpoint_cache.reach("other") is not None
        writer.write(answer(503))

    async with receiver(slow) as there:
        await app.endpoints.add("billing", there.url("/"), retry=duly.no_retry)
        await app.endpoints.add("other", there.url("/"))
        ids = await deliver(app)
        await run_until_idle(app)
    assert await states(app, ids) == ["dead"]


@pytest.mark.requirement("C8")
async def test_alternating_endpoints_are_read_together(
    app: App, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    some, read = app.store.endpoints.some, list[set[str]]()

    async def noted(names: Collection[str]) -> Any:
        read.append(set(names))
        return await some(names)

    monkeypatch.setattr(app.store.endpoints, "some", noted)
    for name in ("x", "y"):
        await app.endpoints.add(name, "https://example.org/in")
    for _ in range(10):
        for name in ("x", "y"):
            assert await app.endpoint_cache.reach(name, "default") is not None
    assert read == [{"x"}, {"x", "y"}]
    clock.advance(1)
    assert await app.endpoint_cache.reach("x", "default") is not None
    assert read[2:] == [{"x", "y"}]


@pytest.mark.requirement("C8")
async def test_an_endpoint_with_waiting_deliveries_is_removed_only_with_them(
    app: App, clock: VirtualClock
) -> None:
    async with receiver() as there:
        await app.endpoints.add("billing", there.url("/"))
        ids = await deliver(app, 3, after=60)
        with pytest.raises(duly.Conflict, match="3 deliveries wait for endpoint 'billing'"):
            await app.endpoints.remove("billing")
        await app.endpoints.remove("billing", cancel_waiting=True)
        clock.advance(120)
        assert await run_until_idle(app) == 0
        assert await states(app, ids) == ["cancelled"] * 3
        with pytest.raises(duly.NotFound, match="no endpoint 'billing'"):
            await deliver(app)


@pytest.mark.requirement("C8", "F5")
async def test_after_a_removal_the_other_deliveries_of_a_stream_continue(
    app: App,
) -> None:
    ran: list[Any] = []

    @app.handler("work")
    async def work(delivery: duly.Delivery[str]) -> None:
        ran.append(delivery.payload)

    await app.endpoints.add("billing", "https://example.org/in")
    ids = await deliver(app, 2, stream="team:7")
    ids += [(await app.deliver("work", each, stream="team:7")).id for each in "ab"]
    await app.endpoints.remove("billing", cancel_waiting=True)
    await run_until_idle(app)
    assert await states(app, ids) == ["cancelled"] * 2 + ["completed"] * 2
    assert ran == ["a", "b"]


@pytest.mark.requirement("C8")
async def test_an_endpoint_of_a_schedule_is_not_removed(app: App) -> None:
    await app.endpoints.add("billing", "https://example.org/in")
    await app.schedule("daily", duly.cron("0 9 * * *"), duly.endpoint("billing"))
    with pytest.raises(duly.Conflict, match="schedule 'daily' sends to endpoint 'billing'"):
        await app.endpoints.remove("billing")


@pytest.mark.requirement("C5")
async def test_a_recovery_retries_each_dead_letter_once(app: App, clock: VirtualClock) -> None:
    server = Answers(400)
    async with receiver(server.talk) as there:
        await app.endpoints.add("billing", there.url("/"))
        await deliver(app, 2)
        await run_until_idle(app)
        clock.advance(3600)
        since = clock.now()
        clock.advance(1)
        ids = await deliver(app, 5)
        await run_until_idle(app)
        assert await app.endpoints.count_dead("billing", since) == 5
        clock.advance(1)
        progress = [each async for each in app.endpoints.recover("billing", since, rate=2.0)]
        assert [(each.done, each.total) for each in progress] == [(2, 5), (4, 5), (5, 5)]
        assert await run_until_idle(app, within=60) == 5
        assert await states(app, ids) == ["dead"] * 5, "the endpoint still refuses them"
        server.status = 204
        clock.advance(1)
        assert [each.done async for each in app.endpoints.recover("billing", since)] == [5]
        (latest, *_) = await app.audit.list()
        assert (latest.action, latest.detail["deliveries"]) == ("dead_letters.retried", 5)
        assert latest.detail["filter"]["target"] == "endpoint:billing"
        assert await run_until_idle(app) == 5
        assert await states(app, ids) == ["completed"] * 5


@pytest.mark.requirement("C5")
async def test_a_test_stores_nothing_and_works_during_a_pause(app: App) -> None:
    async with receiver() as there:
        added = await app.endpoints.add("billing", there.url("/"))
        await app.endpoints.pause("billing")
        found = await app.endpoints.test("billing")
        await app.endpoints.remove("billing")
    (taken,) = there.taken
    assert (found.ok, found.status, found.reason, found.error) == (True, 204, None, None)
    assert duly.verify(taken.body, taken.headers, added.secret, now=app.clock.now())
    assert await app.list() == []


@pytest.mark.requirement("C7")
@pytest.mark.parametrize(
    ("field", "details"),
    [
        ("url", {"url": "ftp://example.org"}),
        ("url", {"url": "http://10.0.0.1/"}),
        ("url", {"url": "https://example.org:0/"}),
        ("method", {"method": "BREW"}),
        ("headers", {"headers": {"Webhook-Id": "1"}}),
        ("headers", {"headers": {"X-A": "1\r\nX-B: 2"}}),
        ("timeout", {"timeout": 61}),
        ("rate", {"rate": 0}),
        ("rate", {"rate": True}),
        ("in_flight", {"in_flight": 1.5}),
        ("in_flight", {"in_flight": 0}),
        ("retry", {"retry": "often"}),
        ("secret", {"secret": "hunter2"}),
        ("description", {"description": "x" * 2000}),
        ("colour", {"colour": "red"}),
    ],
)
async def test_invalid_input_is_refused_with_its_field(
    app: App, field: str, details: dict[str, Any]
) -> None:
    given = {"url": "https://example.org/in"} | details
    with pytest.raises(duly.InvalidInput) as refused:
        await app.endpoints.add("billing", given.pop("url"), **given)
    assert refused.value.field == field
    assert await app.endpoints.list() == []


async def test_a_name_is_unique_and_unknown_ones_are_not_found(app: App) -> None:
    await app.endpoints.add("billing", "https://example.org/in")
    with pytest.raises(duly.Conflict, match="exists already"):
        await app.endpoints.add("billing", "https://example.org/other")
    for call in (app.endpoints.pause, app.endpoints.resume, app.endpoints.remove):
        with pytest.raises(duly.NotFound, match="no endpoint 'nobody'"):
            await call("nobody")
    with pytest.raises(duly.NotFound, match="no endpoint 'nobody'"):
        await app.deliver(duly.endpoint("nobody"))
    with pytest.raises(duly.InvalidInput, match=r"deliver to duly.endpoint\('billing'\)"):
        await app.deliver("endpoint:billing")
