"""Deliveries of every kind that the filters of lists distinguish."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import duly
from duly import App, Delivery
from duly.testing import VirtualClock, run_until_idle
from tests.stores.store_probe import StoreProbe

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOURLY = duly.every("1h")
NEEDLE = "needle"


def handlers(app: App) -> None:
    @app.handler("work")
    async def work(delivery: Delivery[Any]) -> None:
        pass

    @app.handler("fails", retry=duly.no_retry)
    async def fails(delivery: Delivery[Any]) -> None:
        raise ValueError(f"a {NEEDLE} in {delivery.payload}")

    @app.handler("invalid")
    async def invalid(delivery: Delivery[Any]) -> None:
        raise duly.ValidationFailure("not like this")

    @app.handler("later", retry=duly.delays(*[86400] * 5))
    async def later(delivery: Delivery[Any]) -> None:
        raise ConnectionError("not yet")


async def populate(app: App, clock: VirtualClock) -> None:
    """Make all deliveries; the handlers have to be registered."""
    for part in (_plain, _ends, _streams, _batches, _schedules, _outside):
        await part(app, clock)
        clock.advance(HOUR)
    for _ in range(3):
        await run_until_idle(app)
        clock.advance(1)


async def _plain(app: App, clock: VirtualClock) -> None:
    await app.deliver("work", {"say": NEEDLE}, tags=["red"], key="one")
    clock.advance(60)
    await app.deliver("work", 1, tags=["red", "blue"], key=f"{NEEDLE} two")
    await app.deliver("work", 2, after=90 * DAY, tags=["blue"])
    await app.deliver("later", 3, tags=["green"])
    await run_until_idle(app)


async def _ends(app: App, clock: VirtualClock) -> None:
    """Dead, retried, discarded, cancelled, expired."""
    for target in ("fails", "invalid"):
        for tag in ("red", "kept", "retried", "discarded"):
            await app.deliver(target, tag, tags=[tag])
            clock.advance(1)
    await app.deliver("work", 4, after=DAY, expires_at=clock.now() + 2 * DAY, tags=["late"])
    cancelled = await app.deliver("work", 5, after=DAY, tags=["cancelled"])
    await app.cancel(cancelled.id)
    await run_until_idle(app)
    clock.advance(3 * DAY)
    await run_until_idle(app)
    for each in await app.list(tag="retried"):
        await app.retry(each.id)
    for each in await app.list(tag="discarded"):
        await app.dead_letters.discard(each.id, "never mind")


async def _streams(app: App, clock: VirtualClock) -> None:
    for stream, policy in (("released", "release"), ("blocked", "block"), ("forgotten", "release")):
        for target in ("later", "work", "fails", "work"):
            await app.deliver(target, 6, stream=stream, on_failure=policy)
        expiring = clock.now() + HOUR
        await app.deliver("work", 7, stream=stream, after=HOUR, expires_at=expiring)
        gone = await app.deliver("work", 8, stream=stream, after=2 * DAY, tags=["cancelled"])
        await app.cancel(gone.id)
        if stream != "forgotten":
            await app.deliver("work", 9, stream=stream, after=90 * DAY)
    await run_until_idle(app)
    clock.advance(2 * HOUR)
    await run_until_idle(app)
    clock.advance(1)
    await run_until_idle(app)  # a lane is removed shortly after its last delivery
    await app.streams.pause("released", "a while")
    probe = StoreProbe(app.store, clock)  # type: ignore[arg-type]
    # As pruning does: completed deliveries first, then the stream; those without a lane stay.
    await probe.sql("delete from duly.deliveries where stream = 'forgotten' and lane is not null")
    await probe.sql("delete from duly.streams where name = 'forgotten'")


async def _batches(app: App, clock: VirtualClock) -> None:
    """A batch in each state; those of one of them are in all states."""
    finished, cancelled, closed, _ = [
        (await app.batches.open("work", name=name)).id for name in ("f", "x", "c", "o")
    ]
    for target, options in (
        ("work", {}),
        ("fails", {"tags": ["red"]}),
        ("work", {"stream": "in-batch"}),
        ("work", {"after": 90 * DAY, "key": "in-batch"}),
    ):
        await app.deliver(target, 20, batch=closed, **options)
    await app.deliver("work", 21, batch=cancelled, after=DAY)
    await app.deliver_many([("work", 22)] * 3, batch=finished)
    await app.batches.close(finished)
    await app.batches.close(closed)
    await app.batches.cancel(cancelled)
    await run_until_idle(app)
    clock.advance(1)


async def _schedules(app: App, clock: VirtualClock) -> None:
    every_one = {
        "kept": {},
        "removed": {"tags": ["red"]},
        "again": {},
        "queued": {"overlap": "queue"},
        "skips": {"overlap": "skip"},
        "streamed": {"stream": "of a schedule"},
        "dies": {"target": "fails"},
    }
    for name, options in every_one.items():
        target = options.pop("target", "work")
        await app.schedule(name, HOURLY, target, **options)
    await run_until_idle(app, within=3 * HOUR)
    for name in ("removed", "again", "dies", "queued"):
        await app.schedules.remove(name)
    for name in ("again", "queued"):
        await app.schedule(name, HOURLY, "work", overlap="queue")
    await run_until_idle(app, within=2 * HOUR)
    await app.schedules.trigger("again")
    await app.schedules.remove("streamed")


async def _outside(app: App, clock: VirtualClock) -> None:
    await app.endpoints.add("shop", "https://shop.example/hook")
    await app.deliver(duly.endpoint("shop"), 10, after=90 * DAY, tags=["red"])
    await app.deliver(duly.webhook("https://other.example/hook"), 11, after=90 * DAY)
    await app.deliver("work", 12, stream="idle", key="twelve")
