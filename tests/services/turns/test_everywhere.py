"""Deliveries with keys behave like those without, wherever somebody reads or changes lanes.

Lanes with keys are stored under the negative number of their target. A statement that forgets it
would not see them, or would lay them where no claim finds them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly import App, DeadLetterFilter
from duly.testing import VirtualClock, run_until_idle
from tests.services.transfers import move

pytestmark = [pytest.mark.requirement("P6"), pytest.mark.requirement("P10")]
HOOK = "http://127.0.0.1:9/hook"
MINUTE = timedelta(minutes=1)


class Site:
    """An app with a handler that fails on request, and deliveries with or without a key."""

    def __init__(self, app: App, other: App, clock: VirtualClock, key: dict[str, str]) -> None:
        self.app, self.other, self.clock, self.key = app, other, clock, key
        self.seen: list[Any] = []
        self.fails = False
        for each in (app, other):
            per = duly.per("key", in_flight=100)
            each.handler("work", limits=per, retry=duly.delays(60))(self._handle)

    async def _handle(self, delivery: duly.Delivery[Any]) -> None:
        self.seen.append(delivery.payload)
        if self.fails:
            raise duly.ValidationFailure("no")

    async def deliver(self, *payloads: object, target: Any = "work", **options: Any) -> list[str]:
        """Their ids."""
        given: dict[str, Any] = {**self.key, **options}
        return [(await self.app.deliver(target, each, **given)).id for each in payloads]

    async def states(self, *ids: str) -> list[str]:
        return [str((await self.app.get(id)).state) for id in ids]

    async def endpoint(self) -> None:
        await self.app.endpoints.add("hook", HOOK, limits=duly.per("key", in_flight=100))


async def late(site: Site) -> object:
    await site.deliver(1, 2)
    site.clock.advance(60)
    deliveries = site.app.store.deliveries
    return [each.payload for each in await deliveries.late(timedelta(seconds=1), 9)]


async def late_work(site: Site) -> object:
    await site.deliver(1, 2)
    site.clock.advance(60)
    agenda = site.app.store.agenda
    numbers = (await site.app.store.targets.numbers(["work"], create=False)).values()
    found = [await agenda.late_work(timedelta(), chosen) for chosen in (None, numbers, [99])]
    return [each and each.count for each in found]


async def stuck(site: Site) -> object:
    await site.deliver(1)
    site.clock.advance(60)
    found = await site.app.store.deliveries.stuck(MINUTE, 9)
    return [each.payload for each in found]


async def waiting_for_an_endpoint(site: Site) -> object:
    await site.endpoint()
    await site.deliver(1, 2, target=duly.endpoint("hook"))
    numbers = (await site.app.store.targets.numbers(["endpoint:hook"], create=False)).values()
    return list((await site.app.store.endpoints.waiting(numbers)).values())


async def a_paused_endpoint(site: Site) -> object:
    await site.endpoint()
    ids = await site.deliver(1, target=duly.endpoint("hook"))
    await site.app.endpoints.pause("hook", "it moves")
    return await run_until_idle(site.app), await site.states(*ids)


async def a_removed_endpoint(site: Site) -> object:
    await site.endpoint()
    ids = await site.deliver(1, 2, target=duly.endpoint("hook"))
    with pytest.raises(duly.Conflict):
        await site.app.endpoints.remove("hook")
    await site.app.endpoints.remove("hook", cancel_waiting=True)
    return await site.states(*ids)


async def cancelled(site: Site) -> object:
    first, second = await site.deliver(1, 2)
    await site.app.cancel(first)
    progress = [each async for each in site.app.deliveries.cancel_all(target="work")]
    return await site.states(first, second), progress[-1].done, await run_until_idle(site.app)


async def retried_when_dead(site: Site) -> object:
    site.fails = True
    first, second = await site.deliver(1, 2)
    await run_until_idle(site.app)
    before = await site.states(first, second)
    site.fails = False
    await site.app.dead_letters.retry(first)
    async for _ in site.app.dead_letters.retry_all(DeadLetterFilter(target="work")):
        pass
    await run_until_idle(site.app)
    return before, await site.states(first, second), sorted(site.seen)


async def due_later(site: Site) -> object:
    ids = await site.deliver(1, after=3600)
    early = await run_until_idle(site.app)
    await site.app.retry(ids[0])
    return early, await run_until_idle(site.app), await site.states(*ids)


async def moved_to_another_store(site: Site) -> object:
    await site.deliver(1, 2)
    await move(site.app, site.other)
    return await run_until_idle(site.other), sorted(site.seen)


async def of_a_dead_worker(site: Site) -> object:
    await site.deliver(1)
    engine = site.app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.dispatcher.tick()
    await engine.worker.runner.drain(0)
    site.seen.clear()
    site.clock.advance(60)
    return await run_until_idle(site.app), site.seen


async def counted(site: Site) -> object:
    await site.deliver(1, 2, 3)
    await site.deliver(4, after=60)
    found = await site.app.store.status.look(MINUTE)
    return found.due, found.upcoming, await site.app.deliveries.count(target="work")


STORIES: dict[Callable[[Site], Awaitable[object]], object] = {
    late: [1, 2],
    late_work: [2, 2, None],
    stuck: [1],
    counted: (3, 1, 4),
    cancelled: (["cancelled", "cancelled"], 1, 0),
    due_later: (0, 1, ["completed"]),
    retried_when_dead: (["dead", "dead"], ["completed", "completed"], [1, 1, 2, 2]),
    waiting_for_an_endpoint: [(2, 0)],
    a_paused_endpoint: (0, ["pending"]),
    a_removed_endpoint: ["cancelled", "cancelled"],
    moved_to_another_store: (2, [1, 2]),
    of_a_dead_worker: (1, [1]),
}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.parametrize("key", ["none", "fair_key", "limit_key"])
async def test_a_key_changes_nothing_else(
    story: Callable[[Site], Awaitable[object]],
    key: str,
    database_url: str,
    other_url: str,
    clock: VirtualClock,
) -> None:
    environment = {"DULY_EGRESS_ALLOW": "127.0.0.1"}
    app = App(database_url, clock=clock, environment=environment)
    other = App(other_url, clock=clock, environment=environment)
    site = Site(app, other, clock, {} if key == "none" else {key: "customer:7"})
    async with app, other:
        assert await story(site) == STORIES[story]
