"""The raw limit: duly's own two statements in a bare loop, without the engine."""

import argparse
import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

import uvloop

import duly
from duly.domain.deliveries.identifiers import token
from duly.domain.deliveries.outcomes import complete
from duly.domain.moments import microseconds
from duly.ports import ClaimRequest


async def main(database: str, count: int, batch: int) -> dict[str, object]:
    """Claim and complete in turn on two overlapping connections, as the engine does."""
    app = duly.App(database)
    app.expect("noop")
    async with app:
        await app.deliver_many(("noop", {"n": n}) for n in range(count))
        worker = await app.store.workers.register("raw", 600, batch, [])
        number = (await app.store.targets.numbers(["noop"], create=True))["noop"]
        started = time.perf_counter()
        settled = await _loop(app, worker, number, batch)
        seconds = time.perf_counter() - started
    assert settled == count
    return {"peer": "raw", "count": count, "per_second": round(count / seconds, 1)}


async def _loop(app: duly.App, worker: int, target: int, batch: int) -> int:
    floor, settled, claims = datetime(2000, 1, 1, tzinfo=UTC), 0, 0
    writing: asyncio.Task[set[Any]] | None = None
    while True:
        claims += 1
        requests = [ClaimRequest(5, target, floor, batch)]
        claimed = await app.store.agenda.claim(token(worker, claims), batch, requests)
        if writing is not None:
            settled += len(await writing)
        if not claimed:
            return settled
        floor, now = max(each.ready_at for each in claimed), microseconds(app.clock.now())
        done = [complete(each, now, now) for each in claimed]
        writing = asyncio.create_task(app.store.agenda.settle(done))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database", required=True)
    arguments.add_argument("--count", type=int, required=True)
    arguments.add_argument("--batch", type=int, default=1000)
    given = arguments.parse_args()
    uvloop.install()
    print(json.dumps(asyncio.run(main(given.database, given.count, given.batch))))
