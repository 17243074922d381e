"""The cost of order: streams of one compared with none, one hot stream, claims among a million.

python -m benchmarks.streams [--store postgresql|sqlite] [--count 30000] [--waiting 1000000]
"""

import argparse
import asyncio
import os
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import duly
from benchmarks.filling import fill, fill_streams
from benchmarks.places import folder, fresh, in_process, server
from duly.domain.deliveries.identifiers import token
from duly.domain.deliveries.outcomes import complete
from duly.ports import ClaimRequest
from tests.support.postgres import Server

ROUNDS = 5
SLOTS = 100
CLAIMS = 60
PER_STREAM = 10


async def drained(kind: str, postgres: Server, place: Path, count: int, streams: int) -> float:
    """Deliveries a second, in this many streams; 0 for none."""
    url = await fresh(kind, postgres, place)
    result = in_process("duly_drain", "--database", url, "--count", count, "--streams", streams)
    return float(result["per_second"])


async def drain(kind: str, postgres: Server, place: Path, count: int) -> None:
    """Run all in turn, so that a noisy minute affects all."""
    none, ones, hot = [], [], []
    for _ in range(ROUNDS):
        none.append(await drained(kind, postgres, place, count, 0))
        ones.append(await drained(kind, postgres, place, count, count))
        hot.append(await drained(kind, postgres, place, count // 3, 1))
    free, ordered = statistics.median(none), statistics.median(ones)
    pair = statistics.median(one / other for one, other in zip(none, ones, strict=True))
    print(
        f"{kind}: {free:,.0f}/s without streams, {ordered:,.0f}/s in streams of one: "
        f"{free / ordered - 1:.0%} more (wanted: at most 15%), in the median pair {pair - 1:.0%}"
    )
    print(f"  one hot stream: {statistics.median(hot):,.0f}/s (wanted: 2,000)")


class Waiting:
    """A store with a backlog, and a worker that claims from it and settles."""

    def __init__(self, app: duly.App) -> None:
        self._app = app
        self._claims = 0
        self._floor = datetime(2000, 1, 1, tzinfo=UTC)
        self._worker = self._target = 0
        self.times: list[float] = []
        self.counts: list[int] = []

    async def begin(self) -> None:
        """Register the worker."""
        self._worker = await self._app.store.workers.register("streams", 3600, SLOTS, ["noop"])
        self._target = (await self._app.store.targets.numbers(["noop"], create=False))["noop"]

    async def claim(self) -> None:
        """Claim from as many lanes as there are slots; settle outside of the measured time."""
        self._claims += 1
        given, agenda = token(self._worker, self._claims), self._app.store.agenda
        started = time.perf_counter()
        claimed = await agenda.claim(
            given, SLOTS, [ClaimRequest(5, self._target, self._floor, SLOTS)]
        )
        self.times.append(time.perf_counter() - started)
        members = [one for head in claimed for one in (head, *(head.followers or ()))]
        self.counts.append(len(members))
        self._floor = max(each.ready_at for each in claimed)
        now = self._app.clock.now()
        await agenda.settle([complete(each, now, now) for each in members])

    @property
    def milliseconds(self) -> float:
        """The median of a claim."""
        return statistics.median(self.times) * 1000

    @property
    def microseconds_each(self) -> float:
        """The same for each claimed delivery."""
        return self.milliseconds * 1000 / statistics.median(self.counts)


async def claims(urls: list[str], waiting: int) -> None:
    """Claim from the three backlogs in turn."""
    apps = [duly.App(url) for url in urls]
    async with apps[0], apps[1], apps[2]:
        await fill(apps[0], "noop", waiting, seconds_ahead=-10)
        await fill_streams(apps[1], "noop", waiting // PER_STREAM, PER_STREAM)
        await fill_streams(apps[2], "noop", 1, waiting // 2)
        await fill(apps[2], "noop", waiting // 2, seconds_ahead=-5)
        stores = [Waiting(app) for app in apps]
        for store in stores:
            await store.begin()
        # Otherwise the writes that filling left would be measured.
        os.sync()
        for _ in range(CLAIMS):
            for store in stores:
                await store.claim()
    show(waiting, *stores)


def show(waiting: int, free: Waiting, many: Waiting, hot: Waiting) -> None:
    """Print the cost of a claim."""
    print(
        f"  claim of {SLOTS} lanes, {waiting:,} waiting without streams: {free.milliseconds:.2f} ms"
    )
    print(
        f"    in {waiting // PER_STREAM:,} streams: {many.milliseconds:.2f} ms for "
        f"{statistics.median(many.counts):.0f}; for each delivery "
        f"{many.microseconds_each / free.microseconds_each:.2f} times (wanted: at most 1.5)"
    )
    print(
        f"    one stream with the oldest {waiting // 2:,}: {hot.milliseconds:.2f} ms for "
        f"{statistics.median(hot.counts):.0f}; for each delivery "
        f"{hot.microseconds_each / free.microseconds_each:.2f} times (wanted: at most 1.5)"
    )


async def main(kinds: list[str], count: int, waiting: int) -> None:
    """Measure each store."""
    with server() as postgres, folder() as place:
        for kind in kinds:
            await drain(kind, postgres, place, count)
            urls = [await fresh(kind, postgres, place) for _ in range(3)]
            await claims(urls, waiting)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=["postgresql", "sqlite"], action="append")
    arguments.add_argument("--count", type=int, default=30_000)
    arguments.add_argument("--waiting", type=int, default=1_000_000)
    given = arguments.parse_args()
    asyncio.run(main(given.store or ["postgresql", "sqlite"], given.count, given.waiting))
