"""Poison deliveries: each crash is shown, and the metric and the list agree."""

import re

import pytest

import duly
from duly import App
from duly.domain.deliveries.delivery import ALONE
from duly.surfaces.cli.deliveries.commands import shown
from duly.testing import VirtualClock
from tests.http.conftest import Client
from tests.stores.store_probe import StoreProbe

DAYS = 86400.0


async def died(app: App, clock: VirtualClock, crashes: int) -> int:
    """Let another worker die with the only delivery, after so many crashes; returns its id."""
    probe = StoreProbe(app.store, clock)  # type: ignore[arg-type]
    worker = await probe.worker(lease=12)
    asks = [await probe.claim_request(priority=ALONE if crashes >= 2 else 5, target="work")]
    clock.advance(3600)
    (claimed,) = await probe.claim(worker, 9, asks)
    assert claimed.crashes == crashes
    clock.advance(13)
    assert worker in await app.store.workers.declare_dead()
    await app.engine().worker.recovery.take_back()
    return worker


async def candidates(client: Client) -> tuple[int, int]:
    """The number of candidates in the metric and in the list."""
    listed = (await client.get("/v1/dead-letters/poison")).json()["items"]
    text = (await client.get("/metrics")).text
    counted = re.search(r"^duly_poison_candidates(?:\{.*\})? ([\d.]+)$", text, re.MULTILINE)
    assert counted is not None, text
    return int(float(counted[1])), len(listed)


@pytest.mark.requirement("F3", "F11")
async def test_a_poison_delivery_shows_its_crashes_and_dead_workers(
    app: App, client: Client, clock: VirtualClock
) -> None:
    id = (await app.deliver("work", retry=duly.delays(*[60] * 200))).id
    deaths = [(await died(app, clock, crashes), clock.now()) for crashes in range(5)]
    shown_delivery = (await client.get(f"/v1/deliveries/{id}")).json()
    assert (shown_delivery["state"], shown_delivery["reason"], shown_delivery["crashes"]) == (
        "dead",
        "poison_message",
        5,
    )
    found = [(each["worker"], each["finished_at"]) for each in shown_delivery["attempts"]]
    assert found == [
        (worker, at.isoformat().replace("+00:00", "Z").replace(".000000", ""))
        for worker, at in deaths
    ]
    assert all("died" in each["error"] for each in shown_delivery["attempts"])
    detail = await app.deliveries.detail(id)
    assert [each.worker for each in detail.attempts] == [worker for worker, _ in deaths]
    text = shown(detail, await app.deliveries.history(id))
    assert re.search(r"^crashes +5$", text, re.MULTILINE)
    for worker, _ in deaths[:2]:
        assert f"worker {worker} died while it held this" in text
    (listed,) = (await client.get("/v1/dead-letters")).json()["items"]
    assert listed["crashes"] == 5


@pytest.mark.requirement("F11")
async def test_the_metric_and_the_list_have_the_same_count(
    app: App, client: Client, clock: VirtualClock
) -> None:
    @app.handler("fails", retry=duly.delays(60))
    async def fails(delivery: object) -> None:
        raise ValueError("no")

    await app.deliver("fails")
    engine = app.engine(stepped=True)
    await engine.prepare()
    await engine.worker.step()
    await engine.stop()
    assert await candidates(client) == (0, 0), "its last attempt has not run yet"
    await app.deliver("work")
    for crashes in range(4):
        await died(app, clock, crashes)
        assert await candidates(client) == (1, 1)
    clock.advance(3 * DAYS)
    assert await candidates(client) == (1, 1), "it stays a candidate, however long ago that was"
    assert (await app.stats()).poison.count == 1
    await died(app, clock, 4)
    clock.advance(2)
    assert await candidates(client) == (0, 0)


@pytest.mark.requirement("F3")
async def test_a_retried_poison_delivery_starts_without_crashes(
    app: App, client: Client, clock: VirtualClock
) -> None:
    id = (await app.deliver("work")).id
    for crashes in range(5):
        await died(app, clock, crashes)
    await app.dead_letters.retry(id)
    found = await app.get(id)
    assert (found.state, found.crashes) == ("pending", 0)
    assert await candidates(client) == (0, 0)
    await app.cancel(id)
    assert (await app.get(id)).crashes == 0
