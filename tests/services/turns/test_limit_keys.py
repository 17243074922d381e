"""Limits for each key, through an App."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import duly
from duly import App
from duly.testing import run_until_idle
from tests.services.work import running


class Gauge:
    """A handler that knows how many of each key run, and at most ran, at once."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.go = asyncio.Event()
        self.changed = asyncio.Event()

    async def __call__(self, delivery: duly.Delivery[Any]) -> None:
        key = delivery.payload
        self.now[key] += 1
        self.most[key] = max(self.most[key], self.now[key])
        self.changed.set()
        await self.go.wait()
        await asyncio.sleep(0)
        self.now[key] -= 1
        self.done[key] += 1


def limited_app(url: str, gauge: Gauge, **limits: Any) -> App:
    app = App(url, environment={})

    async def sync(delivery: duly.Delivery[Any]) -> None:
        await gauge(delivery)

    app.handler("sync", limits=duly.per("customer", **limits))(sync)
    return app


def items(**counts: int) -> list[dict[str, Any]]:
    return [
        {"target": "sync", "payload": key, "limit_key": key}
        for key, many in counts.items()
        for _ in range(many)
    ]


@pytest.mark.requirement("P6")
async def test_no_more_of_a_key_run_than_its_limit(database_url: str) -> None:
    gauge = Gauge()
    async with limited_app(database_url, gauge, in_flight=2) as app, running(app):
        accepted = await app.deliver_many(items(flooded=12, other=3))
        await until(gauge, {"flooded": 2, "other": 2})
        waiting = [(await app.deliveries.detail(each.id)).waits for each in accepted]
        assert Counter(waiting) == {
            None: 4,
            "limit flooded, 2 of 2 in flight": 10,
            "limit other, 2 of 2 in flight": 1,
        }
        found = {each.key: each for each in await app.limits.keys("sync")}
        assert {key: (each.in_flight_now, each.waiting) for key, each in found.items()} == {
            "flooded": (2, 10),
            "other": (2, 1),
        }
        gauge.go.set()
        for each in accepted:
            await app.deliveries.wait(each.id, timeout=30)
    assert gauge.most == {"flooded": 2, "other": 2}
    assert gauge.done == {"flooded": 12, "other": 3}


@pytest.mark.requirement("P6")
async def test_two_workers_keep_a_limit_together(postgres_url: str) -> None:
    gauge = Gauge()
    one, other = (limited_app(postgres_url, gauge, in_flight=3) for _ in range(2))
    async with one, other, running(one), running(other):
        accepted = await one.deliver_many(items(flooded=30))
        await until(gauge, {"flooded": 3})
        gauge.go.set()
        for each in accepted:
            await one.deliveries.wait(each.id, timeout=30)
    assert (gauge.most, gauge.done) == ({"flooded": 3}, {"flooded": 30})


@pytest.mark.requirement("P6")
async def test_a_limit_key_without_limits_is_refused(app: App) -> None:
    @app.handler("plain")
    async def plain(_: duly.Delivery[Any]) -> None: ...

    item = {"target": "plain", "payload": 1, "limit_key": "customer:7"}
    with pytest.raises(duly.InvalidInput, match=r"plain has no limits for each key; declare them"):
        await app.deliver("plain", 1, limit_key="customer:7")
    with pytest.raises(duly.InvalidInput, match=r"plain has no limits for each key"):
        await app.deliver_many([item])
    (refused, fine) = await app.deliver_each([item, ("plain", 2)])
    assert isinstance(refused, duly.InvalidInput)
    assert refused.field == "limit_key"
    assert [each.id for each in await app.deliveries.list()] == [fine.id]  # type: ignore[union-attr]
    assert await run_until_idle(app) == 1


async def until(gauge: Gauge, now: dict[str, int]) -> None:
    """Wait until exactly these run."""
    async with asyncio.timeout(30):
        while gauge.now != now:
            gauge.changed.clear()
            await gauge.changed.wait()
