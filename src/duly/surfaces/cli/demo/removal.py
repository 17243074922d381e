"""`duly demo --remove`: remove everything that the sample traffic of `duly serve --demo` made.

Only its own names are touched: deliveries to its endpoints that have its tag, and its schedules,
streams and endpoints.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import msgspec

from duly.app import App
from duly.errors import NotFound
from duly.records.dead_letter import BulkProgress, DeadLetterFilter
from duly.stores.deliveries.maintenance import BEGINNING
from duly.surfaces.cli.demo.sample_names import ENDPOINTS, SCHEDULES, STREAMS, TAG

NOTE = "removed by duly demo --remove"


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """How much was removed."""

    schedules: int
    endpoints: int
    streams: int
    deliveries: int


async def remove_samples(app: App) -> Removed:
    """Remove the sample traffic; it is safe to repeat, and to do without any."""
    schedules = [name for name in SCHEDULES if await _removed_schedule(app, name)]
    endpoints = [name for name in ENDPOINTS if await _removed_endpoint(app, name)]
    deliveries = await _forget_deliveries(app, ENDPOINTS)
    namespace = app.settings.namespace
    streams = [
        each for each in STREAMS if await app.store.maintenance.forget_stream(namespace, each)
    ]
    return Removed(
        schedules=len(schedules),
        endpoints=len(endpoints),
        streams=len(streams),
        deliveries=deliveries,
    )


async def _removed_schedule(app: App, name: str) -> bool:
    with suppress(NotFound):
        await app.schedules.remove(name)
        return True
    return False


async def _removed_endpoint(app: App, name: str) -> bool:
    """Remove an endpoint after everything that waits for it; whether there was one."""
    with suppress(NotFound):
        await app.endpoints.get(name)
        await _all(app.deliveries.cancel_all(target=_target(name), tag=TAG))
        dead = DeadLetterFilter(target=_target(name), tag=TAG)
        await _all(app.dead_letters.discard_all(dead, NOTE))
        await app.endpoints.remove(name, cancel_waiting=True)
        return True
    return False


async def _forget_deliveries(app: App, endpoints: Sequence[str]) -> int:
    """Remove the finished deliveries of all these endpoints; returns how many."""
    forgotten = 0
    for name in endpoints:
        after: str | None = BEGINNING
        while after is not None:
            many, after = await app.store.maintenance.forget_finished(
                app.settings.namespace, _target(name), TAG, after, app.settings.prune_batch
            )
            forgotten += many
    return forgotten


def _target(endpoint: str) -> str:
    return f"endpoint:{endpoint}"


async def _all(progress: AsyncIterator[BulkProgress]) -> None:
    async for _ in progress:
        pass
