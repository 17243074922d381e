"""The cost of claiming with a million due, with five million in the future, and with few.

python -m benchmarks.scale [--store postgresql|sqlite] [--due 1000000] [--future 5000000]
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from datetime import UTC, datetime

import duly
from benchmarks.filling import fill
from benchmarks.places import folder, fresh, in_process, server
from duly.domain.deliveries.identifiers import token
from duly.ports import ClaimRequest

SLOTS = 100
ROUNDS = 60
ENOUGH = 10_000


class Filled:
    """A filled store, and a worker that claims from it."""

    def __init__(self, app: duly.App, worker: int, target: int) -> None:
        self._app = app
        self._worker = worker
        self._target = target
        self._claims = 0
        self.times: list[float] = []

    async def claim(self) -> None:
        """Survey, claim a hundred lanes, and release them outside of the measured time."""
        self._claims += 1
        given, agenda = token(self._worker, self._claims), self._app.store.agenda
        started = time.perf_counter()
        await agenda.survey()
        requests = [ClaimRequest(5, self._target, datetime(2000, 1, 1, tzinfo=UTC), SLOTS)]
        claimed = await agenda.claim(given, SLOTS, requests)
        self.times.append(time.perf_counter() - started)
        assert len(claimed) == SLOTS
        await agenda.release(given)

    @property
    def milliseconds(self) -> float:
        """The median."""
        return statistics.median(self.times) * 1000


async def filled(app: duly.App, due: int, future: int) -> Filled:
    """Fill an open store."""
    started = time.perf_counter()
    if future:
        await fill(app, "noop", future, seconds_ahead=86400)
    await fill(app, "noop", due, seconds_ahead=-10)
    seconds = time.perf_counter() - started
    print(f"  filled {due:,} due and {future:,} in the future in {seconds:.0f} s", file=sys.stderr)
    worker = await app.store.workers.register("scale", 3600, SLOTS, ["noop"])
    target = (await app.store.targets.numbers(["noop"], create=False))["noop"]
    return Filled(app, worker, target)


async def measure(kind: str, urls: list[str], due: int, future: int) -> None:
    """Claim from the three stores in turn, so that a slow moment of the disk affects all."""
    async with duly.App(urls[0]) as few, duly.App(urls[1]) as many, duly.App(urls[2]) as later:
        stores = [
            await filled(few, ENOUGH, 0),
            await filled(many, due, 0),
            await filled(later, ENOUGH, future),
        ]
        # Otherwise the writes that filling left would be measured.
        os.sync()
        for _ in range(ROUNDS):
            for store in stores:
                await store.claim()
        least, full, ahead = (store.milliseconds for store in stores)
    print(f"{kind}: claim of {SLOTS} lanes with {ENOUGH:,} due: {least:.2f} ms")
    print(f"  with {due:,} due: {full:.2f} ms, {full / least:.2f} times (wanted: 1.5)")
    print(
        f"  with {future:,} in the future: {ahead:.2f} ms, {ahead / least:.2f} times (wanted: 1.5)"
    )


async def main(kinds: list[str], due: int, future: int) -> None:
    """Measure each store."""
    for kind in kinds:
        with server() as postgres, folder() as place:
            urls = [await fresh(kind, postgres, place) for _ in range(3)]
            await measure(kind, urls, due, future)
            drained = in_process("duly_drain", "--database", urls[1], "--count", due, "--filled")
            print(
                f"  draining {due:,}: {drained['per_second']:,.0f}/s, "
                f"memory grew {drained['grew_megabytes']} MB (wanted: 60)"
            )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=["postgresql", "sqlite"], action="append")
    arguments.add_argument("--due", type=int, default=1_000_000)
    arguments.add_argument("--future", type=int, default=5_000_000)
    given = arguments.parse_args()
    asyncio.run(main(given.store or ["postgresql", "sqlite"], given.due, given.future))
