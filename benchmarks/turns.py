"""What claims cost when deliveries have fair keys or limit keys, compared with claims without.

python -m benchmarks.turns [--store sqlite|postgresql] [--rounds 3] [--count 30000]
"""

import argparse
import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime

import duly
from benchmarks.places import folder, fresh, server
from duly.domain.deliveries.delivery import Claimed, PreparedDelivery
from duly.domain.deliveries.identifiers import token
from duly.domain.deliveries.outcomes import complete
from duly.domain.endpoints.gates import NO_LIMITS, TargetLimits
from duly.domain.turns import FAIR, LIMIT, Visited
from duly.ports import ClaimRequest

BATCH = 50
"""What a worker with 100 slots claims at a time."""
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
WANTED = 1.5
KEYS: dict[str, tuple[Callable[[int], str | None], TargetLimits]] = {
    "no keys": (lambda _: None, NO_LIMITS),
    "100 fair keys": (lambda n: f"{FAIR}{n % 100}", NO_LIMITS),
    "10,000 fair keys": (lambda n: f"{FAIR}{n % 10_000}", NO_LIMITS),
    "100 limit keys": (lambda n: f"{LIMIT}{n % 100}", TargetLimits(in_flight=20)),
    "10,000 limit keys": (lambda n: f"{LIMIT}{n % 10_000}", TargetLimits(in_flight=2)),
    "10,000 limit keys with a rate": (
        lambda n: f"{LIMIT}{n % 10_000}",
        TargetLimits(in_flight=2, rate=1000.0),
    ),
}


class Drain:
    """Claims and completes in a bare loop, as the engine does; only claims are timed."""

    def __init__(self, app: duly.App, worker: int, target: int, limits: TargetLimits) -> None:
        self._app = app
        self._worker = worker
        self._target = target
        self._limits = limits
        self._claims = 0
        self._after = ""
        self._ahead: Visited | None = None
        self._floor = LONG_AGO
        self.seconds = 0.0

    async def all(self, count: int, *, in_turn: bool) -> None:
        """Claim until as many are completed."""
        while count > 0:
            started = time.perf_counter()
            claimed = await (self._in_turn() if in_turn else self._plain())
            self.seconds += time.perf_counter() - started
            count -= len(claimed)
            now = self._app.clock.now()
            await self._app.store.agenda.settle([complete(each, now, now) for each in claimed])

    async def _plain(self) -> list[Claimed]:
        asks = [ClaimRequest(5, self._target, self._floor, BATCH)]
        claimed = await self._app.store.agenda.claim(self._token(), BATCH, asks)
        self._floor = max(each.ready_at for each in claimed)
        return claimed

    async def _in_turn(self) -> list[Claimed]:
        now = self._app.clock.now()
        given = (self._after, self._limits, self._ahead, now)
        ask = ClaimRequest(5, self._target, LONG_AGO, BATCH, True, *given)
        claimed, (result,) = await self._app.store.turns.claim(self._token(), BATCH, [ask])
        self._after, self._ahead = result.after, result.ahead
        return claimed

    def _token(self) -> int:
        self._claims += 1
        return token(self._worker, self._claims)


async def drained(url: str, name: str, count: int) -> float:
    """Microseconds that the claims took for each delivery."""
    turn, limits = KEYS[name]
    app = duly.App(url)
    app.expect("noop")
    async with app:
        worker = await app.store.workers.register("turns", 600, BATCH, [])
        target = (await app.store.targets.numbers(["noop"], create=True))["noop"]
        for first in range(0, count, 1000):
            await app.store.deliveries.accept(
                [
                    PreparedDelivery(app.chance.delivery_id(), "noop", b"1", turn=turn(first + n))
                    for n in range(1000)
                ]
            )
        drain = Drain(app, worker, target, limits)
        await drain.all(count, in_turn=turn(0) is not None)
        return drain.seconds / count * 1e6


async def main(stores: list[str], rounds: int, count: int) -> None:
    """Measure each store and print it."""
    with server() as postgres, folder() as place:
        for kind in stores:
            runs: dict[str, list[float]] = defaultdict(list)
            for number in range(rounds):
                for name in list(KEYS)[:: -1 if number % 2 else 1]:
                    url = await fresh(kind, postgres, place)
                    runs[name].append(await drained(url, name, count))
            print(f"\n{kind}: claims of {BATCH}, {count:,} deliveries")
            for name, found in runs.items():
                ratios = [one / other for one, other in zip(found, runs["no keys"], strict=True)]
                print(
                    f"  {name}: {statistics.median(found):.0f} µs a delivery, "
                    f"{statistics.median(ratios):.2f} times (wanted: at most {WANTED})"
                )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=["sqlite", "postgresql"])
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--count", type=int, default=30_000)
    given = arguments.parse_args()
    stores = [given.store] if given.store else ["sqlite", "postgresql"]
    asyncio.run(main(stores, given.rounds, given.count))
