"""One key with a million waiting deliveries beside 10,000 keys with one each.

python -m benchmarks.flood [--store postgresql|sqlite] [--flooded 1000000] [--others 10000]

A worker with the default concurrency drains the flood; after its first thousand, one delivery of
each other key becomes due at once, and then one of another key every 10 ms. Measured: how long
after that the last of them starts, and the slowest of the single ones; and what claims take for
each delivery, with fair keys, with limit keys, and without keys: while the others are claimed, and
until all have ended.
"""

import argparse
import asyncio
import json
import logging
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

import duly
from benchmarks.places import folder, fresh, in_process, server
from duly.system import hand_over_quickly
from tests.support.postgres import Server

CLAIMS, START = 1.5, 1.0
"""At most so many times the claims without keys, and so many seconds to the start."""
SINGLE = 200
KINDS = ("none", "fair", "limit")
PARTS = {"crowded": "while the other keys had their turns", "whole": "until all have ended"}


class Spent:
    """The seconds that all claims took so far, and the lanes that they claimed."""

    def __init__(self, app: duly.App) -> None:
        self._seconds = app.telemetry.calls["claim"].sum
        self._lanes = app.telemetry.counts["claimed"]

    def since(self, before: "Spent") -> float:
        """Microseconds for each lane that was claimed since."""
        return (self._seconds - before._seconds) / (self._lanes - before._lanes) * 1e6


async def measure(database: str, kind: str, flooded: int, others: int) -> dict[str, float]:
    """Drain a flood, then deliver for the other keys."""
    app, started = duly.App(database), dict[int, float]()
    limits = duly.per("key", in_flight=1000) if kind == "limit" else None

    @app.handler("noop", limits=limits)
    async def noop(delivery: duly.Delivery[int]) -> None:
        if delivery.payload:
            started[delivery.payload] = time.perf_counter()

    def item(number: int) -> dict[str, object]:
        key = {} if kind == "none" else {f"{kind}_key": f"key-{number}"}
        return {"target": "noop", "payload": number, **key}

    async with app:
        await app.deliver_many(item(0) for _ in range(flooded))
        running = asyncio.create_task(app.run(signals=False))
        completed = app.telemetry.counts
        while completed["completed"] < 1000:  # noqa: ASYNC110 - polling is enough
            await asyncio.sleep(0.002)
        before = Spent(app)
        await app.deliver_many(item(1 + number) for number in range(others))
        due = time.perf_counter()
        while len(started) < others:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        crowded, last = Spent(app).since(before), max(started.values()) - due
        single = await slowest_single(app, item, started, 1 + others)
        while completed["completed"] < flooded + others + SINGLE:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        whole = Spent(app).since(before)
        app.stop()
        await running
    return {"crowded": crowded, "whole": whole, "last": last, "single": single}


async def slowest_single(
    app: duly.App,
    item: Callable[[int], dict[str, object]],
    started: dict[int, float],
    first: int,
) -> float:
    """Deliver one every 10 ms, each of a key of its own; the longest time to a start."""
    accepted = {}
    for number in range(first, first + SINGLE):
        await app.deliver_many([item(number)])
        accepted[number] = time.perf_counter()
        await asyncio.sleep(0.01)
    while not started.keys() >= accepted.keys():  # noqa: ASYNC110
        await asyncio.sleep(0.002)
    return max(started[number] - at for number, at in accepted.items())


async def compare(kind: str, postgres: Server, place: Path, given: argparse.Namespace) -> None:
    """Run all in turn, and print the ratios."""
    found: dict[str, list[dict[str, float]]] = {each: [] for each in KINDS}
    for number in range(given.rounds):
        for keys in KINDS if number % 2 else KINDS[::-1]:
            url = await fresh(kind, postgres, place)
            options = ("--database", url, "--keys", keys, "--flooded", given.flooded)
            result = in_process("flood", *options, "--others", given.others)
            found[keys].append(result)
    for keys in KINDS[1:]:
        last = max(each["last"] for each in found[keys])
        single = max(each["single"] for each in found[keys])
        print(
            f"{kind}, {keys} keys: the last of {given.others:,} starts after {last:.2f} s, the "
            f"slowest of {SINGLE} single ones after {single:.3f} s (wanted: {START:.0f} s)"
        )
        for part in ("crowded", "whole"):
            pairs = zip(found[keys], found["none"], strict=True)
            ratio = statistics.median(one[part] / plain[part] for one, plain in pairs)
            took = statistics.median(each[part] for each in found[keys])
            print(
                f"  claims, {PARTS[part]}: {took:.0f} µs a delivery, "
                f"{ratio:.2f} times those without keys (wanted: {CLAIMS})"
            )


async def main(given: argparse.Namespace) -> None:
    """Measure each store."""
    with server() as postgres, folder() as place:
        for kind in given.store or ["postgresql", "sqlite"]:
            await compare(kind, postgres, place, given)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=["postgresql", "sqlite"], action="append")
    arguments.add_argument("--flooded", type=int, default=1_000_000)
    arguments.add_argument("--others", type=int, default=10_000)
    arguments.add_argument("--rounds", type=int, default=1)
    arguments.add_argument("--database")
    arguments.add_argument("--keys", choices=KINDS)
    chosen = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.ERROR)
    if chosen.database is None:
        asyncio.run(main(chosen))
    else:
        uvloop.install()
        hand_over_quickly()  # as `duly work` does
        result = measure(chosen.database, chosen.keys, chosen.flooded, chosen.others)
        print(json.dumps(asyncio.run(result)))
