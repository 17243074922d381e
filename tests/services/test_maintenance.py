"""Unfinished deliveries of every kind survive a month of maintenance."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import duly
from duly import App, Delivery
from duly.engine.maintenance import Pruner, Sweeper, repair_schedules
from duly.testing import VirtualClock, run_until_idle
from tests.services.work import Work, blocked

MONTH = timedelta(days=30)
LATER = duly.delays(90 * 86400)


async def fail_after_a_step(delivery: Delivery[Any]) -> None:
    await delivery.do("charge", lambda: {"receipt": 7})
    raise ValueError("not yet")


async def unfinished_deliveries(app: App, work: Work) -> set[str]:
    """Unfinished deliveries, one of each kind; the dead letter blocks its stream."""
    app.handler("stepping", retry=LATER)(fail_after_a_step)
    stepping = await app.deliver("stepping")
    in_stream = await blocked(work)
    released = await work.add("x", stream="other", on_failure="release")
    await app.streams.pause("other")
    app.expect("unserved")
    unserved = await app.deliver("unserved")
    await app.endpoints.add("billing", "https://example.org/hook")
    await app.endpoints.pause("billing")
    paused = await app.deliver(duly.endpoint("billing"), {"n": 1})
    planned = await app.deliver("work", "in a year", after=365 * 86400)
    await app.schedule("new year", duly.yearly(1, 1), "work", "cheers")
    occurrences = [each.id for each in await app.list(target="work") if each.schedule]
    return {
        stepping.id,
        *in_stream,
        *released,
        unserved.id,
        paused.id,
        planned.id,
        *occurrences,
    }


async def maintain(app: App) -> None:
    """Prune and sweep in slices, with no retention time."""
    none = timedelta(0)
    maintenance, emit = app.store.maintenance, app.telemetry.emit
    repair = partial(repair_schedules, app.store.schedules, app.chance.delivery_id)
    pruner = Pruner(maintenance, emit, keep_completed=none, keep_dead=none, interval=9.0, batch=3)
    sweeper = Sweeper(maintenance, repair, emit, interval=9.0, batch=3)
    for loop in (pruner, sweeper):
        await loop.tick()  # the first one only waits
        while (await loop.tick()).seconds != 9.0:
            pass


@pytest.mark.requirement("D14", "F8", "F5")
async def test_unfinished_deliveries_of_every_kind_exist_after_a_month(
    app: App, work: Work, clock: VirtualClock
) -> None:
    finished = await work.add("done", stream=None)
    unfinished = await unfinished_deliveries(app, work)
    await run_until_idle(app)
    [stepping] = [each.id for each in await app.list(target="stepping")]
    clock.advance(MONTH)
    await maintain(app)
    assert {each.id for each in await app.list(limit=100)} == unfinished
    with pytest.raises(duly.NotFound):
        await app.get(finished[0])
    assert [each.name for each in await app.steps(stepping)] == ["charge"]
    assert (await app.endpoints.get("billing")).name == "billing"
    assert {each.name for each in await app.streams.list()} == {"team:7", "other"}
    assert "SweptUp" not in app.telemetry.counts
