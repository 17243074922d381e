"""The cost of batches: members compared with plain deliveries, accepted and drained.

python -m benchmarks.batches [--store postgresql|sqlite] [--count 60000] [--rounds 5]

Members and plain deliveries take turns, each in a new process and a new database. Also how long
after the last member has ended the completion of the batch starts.
"""

import argparse
import asyncio
import json
import logging
import statistics
import time
from pathlib import Path

import uvloop

import duly
from benchmarks.places import folder, fresh, in_process, server
from duly.system import hand_over_quickly
from tests.support.postgres import Server

ACCEPTED, DRAINED = 0.80, 0.85
"""The wanted shares of the rate of plain deliveries."""


async def measure(database: str, count: int, members: bool) -> dict[str, float]:
    """Accept the deliveries with `deliver_many`, then drain them."""
    app, ended_at = duly.App(database, concurrency=2000), asyncio.Event()

    @app.handler("noop")
    async def noop(delivery: duly.Delivery[object]) -> None:
        pass

    @app.handler("done")
    async def done(_delivery: duly.Delivery[object]) -> None:
        ended_at.set()

    async with app:
        batch = (await app.batches.open("done")).id if members else None
        started = time.perf_counter()
        await app.deliver_many((("noop", {"n": n}) for n in range(count)), batch=batch)
        accepting = time.perf_counter() - started
        if batch is not None:
            await app.batches.close(batch)
        started = time.perf_counter()
        running = asyncio.create_task(app.run(signals=False))
        while app.telemetry.counts["completed"] < count:  # noqa: ASYNC110 - polling is enough
            await asyncio.sleep(0.002)
        draining, finished = time.perf_counter() - started, time.perf_counter()
        if members:
            await ended_at.wait()
        waited = time.perf_counter() - finished
        app.stop()
        await running
    return {"accepted": count / accepting, "drained": count / draining, "waited": waited}


async def compare(kind: str, postgres: Server, place: Path, given: argparse.Namespace) -> None:
    """Run both in turn, so that a noisy minute affects both, and print the ratios."""
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for number in range(given.rounds):
        for members in (False, True) if number % 2 else (True, False):
            url = await fresh(kind, postgres, place)
            options = ("--database", url, "--count", given.count, *["--members"] * members)
            found[members].append(in_process("batches", *options))
    for what, wanted in (("accepted", ACCEPTED), ("drained", DRAINED)):
        plain, member = (
            statistics.median(each[what] for each in found[kind]) for kind in (False, True)
        )
        pairs = zip(found[True], found[False], strict=True)
        ratio = statistics.median(one[what] / other[what] for one, other in pairs)
        print(
            f"{kind}, {what}: {plain:,.0f}/s plain, {member:,.0f}/s members: "
            f"{member / plain:.0%}, in the median pair {ratio:.0%} (wanted: {wanted:.0%})"
        )
    waited = statistics.median(each["waited"] for each in found[True])
    print(f"{kind}: the completion starts {waited:.2f} s after the last member")


async def main(given: argparse.Namespace) -> None:
    """Measure each store."""
    with server() as postgres, folder() as place:
        for kind in given.store or ["postgresql", "sqlite"]:
            await compare(kind, postgres, place, given)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=["postgresql", "sqlite"], action="append")
    arguments.add_argument("--count", type=int, default=60_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--database")
    arguments.add_argument("--members", action="store_true")
    chosen = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.ERROR)
    if chosen.database is None:
        asyncio.run(main(chosen))
    else:
        uvloop.install()
        hand_over_quickly()  # as `duly work` does
        print(json.dumps(asyncio.run(measure(chosen.database, chosen.count, chosen.members))))
