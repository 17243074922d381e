"""How fast webhooks are sent, how well endpoints are isolated, and how exact rates are.

python -m benchmarks.webhooks [--small] [--rounds 3] [--store postgresql|sqlite]
    [--part speed|isolation|rate] [--count 20000] [--in-flight 50] [--each-rate 10]
    [--before FOLDER]

FOLDER is a worktree of an earlier commit: `git worktree add ../before COMMIT`. It is run with this
environment's packages, so what only the earlier commit needs has to be installed.
"""

import argparse
import asyncio
import logging
from pathlib import Path

import uvloop

from benchmarks.members import Sink
from benchmarks.places import folder, server
from benchmarks.webhooks import isolation, rate, speed
from benchmarks.webhooks.sizes import FULL, SMALL, Sizes
from tests.support.postgres import Server

KINDS = ("postgresql", "sqlite")
PARTS = ("speed", "isolation", "rate")


async def measure(kind: str, parts: list[str], sizes: Sizes, postgres: Server, place: Path) -> None:
    """Measure one store."""
    with Sink() as sink:
        if "speed" in parts:
            print(f"{kind}, speed: {sizes.count:,}, {sizes.in_flight} at once", flush=True)
            speed.show(await speed.Speed(kind, postgres, place, sink, sizes).measure())
        if "isolation" in parts:
            print(f"{kind}, isolation: {sizes.seconds:g} s each", flush=True)
            await isolation.Isolation(kind, postgres, place, sink, sizes).measure()
        if "rate" in parts:
            print(f"{kind}, rate: {sizes.paced_seconds:g} s", flush=True)
            await rate.measure(kind, postgres, place, sink, sizes)


async def main(kinds: list[str], parts: list[str], sizes: Sizes) -> None:
    """Measure each store."""
    with server() as postgres, folder() as place:
        for kind in kinds:
            await measure(kind, parts, sizes, postgres, place)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--small", action="store_true", help="a quick check, not a measurement")
    arguments.add_argument("--rounds", type=int)
    arguments.add_argument("--count", type=int, help="deliveries drained for speed")
    arguments.add_argument("--in-flight", type=int, help="how many are sent at once for speed")
    arguments.add_argument(
        "--each-rate", type=float, help="deliveries a second to each healthy endpoint"
    )
    arguments.add_argument("--store", choices=KINDS, action="append")
    arguments.add_argument("--part", choices=PARTS, action="append")
    arguments.add_argument("--before", type=Path)
    given = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.ERROR)
    uvloop.install()
    wanted = (SMALL if given.small else FULL).but(
        rounds=given.rounds,
        count=given.count,
        in_flight=given.in_flight,
        each_rate=given.each_rate,
        before=given.before,
    )
    asyncio.run(main(given.store or list(KINDS), given.part or list(PARTS), wanted))
