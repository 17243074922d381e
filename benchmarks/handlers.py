"""What arguments and results cost, and what a no-op costs compared with an earlier commit.

python -m benchmarks.handlers [--store sqlite|postgresql] [--rounds 7] [--before FOLDER]

FOLDER is a worktree of an earlier commit: `git worktree add ../before COMMIT`. It is run with this
environment's packages.
"""

import argparse
import asyncio
import os
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.places import ROOT, folder, fresh, in_process, python_path, server

Runs = dict[str, list[dict[str, Any]]]


async def measure(kind: str, rounds: int, count: int, before: Path | None) -> Runs:
    """Run all in turn, so that a noisy minute affects all."""
    places = {"no-op": (ROOT, "delivery"), "arguments and results": (ROOT, "arguments")}
    if before is not None:
        places = {"no-op before": (before, "")} | places
    runs: Runs = defaultdict(list)
    with server() as postgres, folder() as place:
        for number in range(rounds):
            # In turns forwards and backwards: whoever comes later finds a larger store.
            for name, (root, handler) in list(places.items())[:: -1 if number % 2 else 1]:
                url = await fresh(kind, postgres, place)
                given = ["--database", url, "--count", count]
                given += ["--handler", handler] if handler else []
                os.environ["PYTHONPATH"] = python_path(root)
                runs[name].append(in_process("duly_drain", *given, root=root))
    return runs


def show(kind: str, runs: Runs) -> None:
    """Print medians, and the medians of the ratios of each round."""
    print(f"\n{kind}")
    for name, each in runs.items():
        rate = statistics.median(run["per_second"] for run in each)
        cpu = statistics.median(run["client_microseconds"] for run in each)
        print(f"  {name}: {rate:,.0f}/s, {cpu:.1f} µs of CPU in the worker")
    pairs = [("no-op before", "no-op", 3), ("no-op", "arguments and results", 15)]
    for first, second, most in pairs:
        if first in runs:
            _compare(runs[first], runs[second], f"{second} against {first}", most)


def _compare(one: list[dict[str, Any]], other: list[dict[str, Any]], title: str, most: int) -> None:
    rounds = list(zip(one, other, strict=True))
    rates = [second["per_second"] / first["per_second"] for first, second in rounds]
    cpus = [
        second["client_microseconds"] / first["client_microseconds"] for first, second in rounds
    ]
    print(
        f"  {title}, median of {len(rounds)} rounds: {statistics.median(rates):.1%} of the rate "
        f"(wanted: at least {100 - most}%), {statistics.median(cpus):.1%} of the CPU"
    )


async def main(stores: list[str], rounds: int, count: int, before: Path | None) -> None:
    """Measure each store and print it."""
    for kind in stores:
        show(kind, await measure(kind, rounds, count, before))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=["sqlite", "postgresql"])
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--count", type=int, default=60_000)
    arguments.add_argument("--before", type=Path)
    given = arguments.parse_args()
    stores = [given.store] if given.store else ["sqlite", "postgresql"]
    asyncio.run(main(stores, given.rounds, given.count, given.before))
