"""How fast no-op deliveries drain, compared with peers and the raw limit in the same run.

python -m benchmarks.drain [--rounds 3] [--count 100000] [--store postgresql|sqlite]

First with the default settings of duly, as people get it, then with those that are best for no-ops.
"""

import argparse
import asyncio
import statistics
from collections import defaultdict
from typing import Any

from benchmarks.peers import install
from benchmarks.peers.run import drain as drain_peer
from benchmarks.places import folder, fresh, in_process, server

Runs = dict[str, list[dict[str, Any]]]

DEFAULTS: dict[str, object] = {"tuned": 0, "workers": 1}
PEERS: dict[str, list[tuple[str, int, dict[str, object]]]] = {
    "postgresql": [
        ("pgqueuer", 50_000, {"batch_size": 500}),
        ("pgqueuer", 50_000, {"batch_size": 1000}),
        ("procrastinate", 2_000, DEFAULTS | {"concurrency": 10}),
        ("procrastinate", 2_000, DEFAULTS | {"concurrency": 30}),
        ("procrastinate, tuned", 2_000, {}),
        ("dbos", 1_000, {}),
    ],
    "sqlite": [
        ("huey", 10_000, {}),
        ("dbos", 1_000, {"wal": 0}),
        ("dbos, with WAL", 1_000, {}),
    ],
}
"""Each peer with its own settings, of which the best counts; then tuned as far as we could:
procrastinate with autocommit and four workers in its process, dbos on a file switched to WAL."""
WANTED = {
    "postgresql": {"pgqueuer": 2.7, "procrastinate": 50},
    "sqlite": {"huey": 8, "dbos": 100},
}
"""How many times the rate of a peer, with the default settings."""
SETTINGS = {"the default": 100, "the best setting": 2000}
"""Deliveries in flight at once."""
OF_THE_RAW_LIMIT, OF_THE_BEST = 0.72, 0.75


async def measure(kind: str, rounds: int, count: int) -> Runs:
    """Run all in turn, so that a noisy minute affects all."""
    runs: Runs = defaultdict(list)
    with server() as postgres, folder() as place:
        for _ in range(rounds):
            for name, concurrency in SETTINGS.items():
                url = await fresh(kind, postgres, place)
                options = ("--database", url, "--count", count, "--concurrency", concurrency)
                runs[name].append(in_process("duly_drain", *options))
            url = await fresh(kind, postgres, place)
            runs["raw"].append(in_process("raw_drain", "--database", url, "--count", count))
            for peer, jobs, options in PEERS[kind]:
                url = await fresh(kind, postgres, place)
                runs[peer].append(drain_peer(peer.partition(",")[0], url, jobs, **options))
    return runs


def show(kind: str, runs: Runs) -> None:
    """Print medians and ratios; a peer counts with the best of its settings."""
    default, best = (_median(runs[name]) for name in SETTINGS)
    raw = _best(runs["raw"])
    print(f"\n{kind}")
    for name, concurrency in SETTINGS.items():
        last = runs[name][-1]
        print(
            f"  {name} ({concurrency} in flight): duly {_median(runs[name]):,.0f}/s "
            f"(runs: {_each(runs[name])}), client CPU {last['client_microseconds']} µs, commits "
            f"a delivery {last['commits_per_delivery']}, memory grew {last['grew_megabytes']} MB"
        )
    print(f"  the default has {default / best:.0%} of the best (wanted: {OF_THE_BEST:.0%})")
    print(
        f"  the raw limit is {raw:,.0f}/s: the best has {best / raw:.0%} of it (wanted: "
        f"{OF_THE_RAW_LIMIT:.0%}), the default {default / raw:.0%}"
    )
    for peer in dict.fromkeys(peer for peer, _, _ in PEERS[kind]):
        theirs, wanted = _best(runs[peer]), WANTED[kind].get(peer)
        aim = f" (wanted: {wanted:g})" if wanted else ""
        print(
            f"  {peer} {theirs:,.0f}/s: the default is {default / theirs:.1f} times as fast{aim}, "
            f"the best {best / theirs:.1f} times"
        )


def _median(runs: list[dict[str, Any]]) -> float:
    return statistics.median(run["per_second"] for run in runs)


def _each(runs: list[dict[str, Any]]) -> str:
    return ", ".join(f"{run['per_second']:,.0f}" for run in runs)


def _best(runs: list[dict[str, Any]]) -> float:
    settings: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        settings[str(run.get("settings"))].append(run["per_second"])
    return max(statistics.median(each) for each in settings.values())


async def main(rounds: int, count: int, kinds: list[str]) -> None:
    """Measure both stores."""
    for kind in kinds:
        show(kind, await measure(kind, rounds, count))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--count", type=int, default=100_000)
    arguments.add_argument("--store", choices=["postgresql", "sqlite"], action="append")
    given = arguments.parse_args()
    install.install()
    asyncio.run(main(given.rounds, given.count, given.store or ["postgresql", "sqlite"]))
