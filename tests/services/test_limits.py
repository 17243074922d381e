"""Limits of targets from Python: declared, listed, refused, and shown by what waits for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, InvalidInput, NotFound, PerKey
from duly.domain.endpoints.limits import DeclaredLimits, KeyLimits
from duly.records.limit import Limit
from duly.services.deliveries.limits import LimitKeys
from duly.testing import VirtualClock, run_until_idle
from tests.services.conftest import START
from tests.services.transfers import move

pytestmark = pytest.mark.requirement("P6")
URL = "https://example.org/hook"


async def nothing() -> None: ...


def app_at(url: str, clock: VirtualClock) -> App:
    return App(url, clock=clock, environment={})


async def test_limits_are_listed_by_target_with_their_use(
    database_url: str, clock: VirtualClock
) -> None:
    app = app_at(database_url, clock)
    app.handler("report", rate=4, in_flight=3, limits=duly.per("team", rate=2))(nothing)
    app.handler("free")(nothing)
    async with app:
        await app.endpoints.add("billing", URL, in_flight=9)
        await app.endpoints.add("open", URL)
        await app.deliver_many([("report", None)] * 2 + [("free", None)])
        await app.deliver("report", after=60)
        report = Limit(
            target="report",
            rate=4.0,
            in_flight=3,
            per_key=PerKey("team", None, 2.0),
            in_flight_now=0,
            waiting=2,
            next_at=None,
            declared_at=START,
        )
        assert await app.limits.get("report") == report
        listed = await app.limits.list()
        assert [each.target for each in listed] == ["endpoint:billing", "report"]
        assert listed[1] == report
        assert await app.limits.list(limit=1) == listed[:1]
        assert await app.limits.list(after="endpoint:billing") == listed[1:]
        assert await app.limits.get(duly.endpoint("billing")) == listed[0]
        assert (listed[0].in_flight, listed[0].declared_at) == (9, None)
        await run_until_idle(app)
        limit = await app.limits.get("report")
        assert (limit.waiting, limit.next_at) == (1, START + timedelta(seconds=0.25))


@pytest.mark.parametrize("target", ["free", "endpoint:none", "unknown"])
async def test_a_target_without_limits_is_not_found(app: App, target: str) -> None:
    with pytest.raises(NotFound, match=f"no limit '{target}'; duly limits shows"):
        await app.limits.get(target)


async def test_a_due_delivery_says_that_it_waits_for_the_limit(
    database_url: str, clock: VirtualClock
) -> None:
    app = app_at(database_url, clock)
    seen: list[str | None] = []

    @app.handler("report", in_flight=2)
    async def report(delivery: duly.Delivery[Any]) -> None:
        if delivery.payload == 1:
            for each in (third, later):
                seen.append((await app.deliveries.detail(each.id)).waits)

    app.handler("slow", rate=0.1)(nothing)
    async with app:
        await app.deliver("report", 1)
        await app.deliver("report", 2)
        third = await app.deliver("report", 3)
        later = await app.deliver("report", 4, after=60)
        await run_until_idle(app)
        assert seen == ["limit report, 2 of 2 in flight", None]
        assert (await app.deliveries.detail(third.id)).waits is None
        slow = [await app.deliver("slow") for _ in range(2)]
        await run_until_idle(app)
        (waits,) = {(await app.deliveries.detail(each.id)).waits for each in slow} - {None}
        assert waits == ("limit slow, 0.1 a second; the next may start at 2026-08-01 07:30:10.000Z")


@pytest.mark.parametrize("bad", [0, -1, "5", True, 10_001, float("nan"), 1.5])
def test_an_in_flight_limit_is_a_number_from_one_on(sqlite_url: str, bad: Any) -> None:
    app = App(sqlite_url, environment={})
    with pytest.raises(InvalidInput, match=r"^in_flight: .* is not a whole number from 1 to 10000"):
        app.handler("report", in_flight=bad)
    with pytest.raises(InvalidInput, match=r"^in_flight: "):
        duly.per("customer", in_flight=bad)


@pytest.mark.parametrize("bad", [0, -1, "5", True, 100_001, float("nan"), float("inf")])
def test_a_rate_is_a_number_above_zero(sqlite_url: str, bad: Any) -> None:
    app = App(sqlite_url, environment={})
    with pytest.raises(InvalidInput, match=r"^rate: .* is not from 0\.001 to 100000"):
        app.handler("report", rate=bad)
    with pytest.raises(InvalidInput, match=r"^rate: "):
        duly.per("customer", rate=bad)
    assert app.handlers.serves() == []


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        (PerKey("customer"), "limits"),
        (PerKey("", 2), "limits.name"),
        (PerKey("customer", 0), "limits.in_flight"),
        (PerKey("customer", 2, -1), "limits.rate"),
        ({"name": "customer"}, "limits"),
        (2, "limits"),
    ],
)
async def test_bad_limits_for_each_key_are_refused(app: App, limits: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.handler("report", limits=limits)
    assert refused.value.field == field
    with pytest.raises(InvalidInput) as refused:
        await app.endpoints.add("billing", URL, limits=limits)
    assert refused.value.field == field
    assert await app.endpoints.list() == []


def test_per_needs_a_name_and_a_limit() -> None:
    assert duly.per("customer", in_flight=2, rate=5) == PerKey("customer", 2, 5.0)
    with pytest.raises(InvalidInput, match=r"^per: give it in_flight, rate, or both"):
        duly.per("customer")
    with pytest.raises(InvalidInput, match=r"^name: '' is not a name"):
        duly.per("", rate=1)


async def test_an_endpoint_has_limits_for_each_key(app: App) -> None:
    await app.endpoints.add("billing", URL, limits=duly.per("customer", in_flight=2))
    assert (await app.endpoints.get("billing")).limits == PerKey("customer", 2, None)
    edited = await app.endpoints.edit("billing", limits=duly.per("plan", rate=5), rate=7)
    assert (edited.limits, edited.rate) == (PerKey("plan", None, 5.0), 7.0)
    target = (await app.store.endpoints.get("billing")).target
    limits = await app.store.limits.by_target(None)
    assert limits == {target: DeclaredLimits(7.0, None, PerKey("plan", None, 5.0))}
    assert await app.store.limits.key_limits(["default"]) == {target: KeyLimits("plan", 5.0)}
    assert await app.store.limits.key_limits(["other"]) == {}
    await app.endpoints.edit("billing", limits=None)
    assert (await app.endpoints.get("billing")).limits is None
    assert await app.store.limits.key_limits(None) == {}


async def test_a_limit_key_needs_a_target_with_limits_for_each_key(
    app: App, clock: VirtualClock
) -> None:
    checks = LimitKeys(app.store, clock)
    await checks.check_limits([])
    await app.endpoints.add("billing", URL, limits=duly.per("customer", in_flight=2))
    await app.endpoints.add("plain", URL, rate=3)
    await checks.check_limits(["endpoint:billing", "endpoint:billing"])
    for target in ("endpoint:plain", "unknown"):
        with pytest.raises(InvalidInput, match=f"^limit_key: {target} has no limits for each key"):
            await checks.check_limits(["endpoint:billing", target])
    await app.endpoints.edit("billing", limits=None)
    clock.advance(6)
    with pytest.raises(InvalidInput, match=r"^limit_key: "):
        await checks.check_limits(["endpoint:billing"])


async def test_a_namespace_keeps_its_limits_to_itself(
    database_url: str, clock: VirtualClock
) -> None:
    app = App(database_url, clock=clock, environment={}, namespaces="default")
    app.handler("report", in_flight=3)(nothing)
    async with app:
        assert await app.within("other").limits.list() == []


async def test_limits_of_an_endpoint_move_with_an_export(app: App, other: App) -> None:
    await app.endpoints.add("billing", URL, limits=duly.per("customer", in_flight=2, rate=5))
    await move(app, other)
    assert (await other.endpoints.get("billing")).limits == PerKey("customer", 2, 5.0)
