"""The sweeper and the pruner, tick by tick."""

from datetime import timedelta
from functools import partial

import pytest

from duly.engine.maintenance import (
    AFTER_START_SECONDS,
    BETWEEN_SLICES,
    Pruner,
    Sweeper,
    repair_schedules,
)
from duly.testing import run_until_idle
from tests.engine.cluster import Barrier, Cluster, states
from tests.stores.store_probe import StoreProbe


@pytest.mark.requirement("D15")
async def test_the_sweeper_restores_lanes_in_batches_and_counts_them(cluster: Cluster) -> None:
    app, barrier = cluster.app(), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    await app.open()
    await app.deliver_many([("work", None)] * 5)
    probe = StoreProbe(app.store, cluster.clock)  # type: ignore[arg-type]
    await probe.sql("delete from duly.agenda")
    assert await run_until_idle(app) == 0
    repair = partial(repair_schedules, app.store.schedules, app.chance.delivery_id)
    sweeper = Sweeper(app.store.maintenance, repair, app.telemetry.emit, interval=300, batch=2)
    pauses = [(await sweeper.tick()).seconds for _ in range(4)]
    assert pauses == [AFTER_START_SECONDS, BETWEEN_SLICES.seconds, BETWEEN_SLICES.seconds, 300]
    assert app.telemetry.counts["SweptUp"] == 3
    assert await run_until_idle(app) == 5
    for _ in range(3):
        await sweeper.tick()
    assert app.telemetry.counts["SweptUp"] == 3


async def test_the_pruner_deletes_deliveries_that_ended_long_ago(cluster: Cluster) -> None:
    app, barrier = cluster.app(), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    await app.open()
    await app.deliver_many([("work", None)] * 5)
    await run_until_idle(app)
    await app.deliver("work")
    pruner = Pruner(
        app.store.maintenance,
        app.telemetry.emit,
        keep_completed=timedelta(days=7),
        keep_dead=timedelta(days=90),
        interval=3600,
        batch=4,
    )
    for _ in range(3):
        await pruner.tick()
    assert await states(app) == {"completed": 5, "pending": 1}
    cluster.clock.advance(timedelta(days=7, seconds=1))
    pauses = [(await pruner.tick()).seconds for _ in range(2)]
    assert pauses == [BETWEEN_SLICES.seconds, 3600]
    assert await states(app) == {"pending": 1}
    assert app.telemetry.counts["Pruned"] == 2
