"""How fast no-op deliveries drain, compared with peers and the raw limit in the same run.

python -m benchmarks.drain [--rounds 3] [--quick]
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
    "postgresql": {"pgqueuer": 2.5, "procrastinate": 50},
    "sqlite": {"huey": 6, "dbos": 100},
}


async def measure(kind: str, rounds: int, count: int) -> Runs:
    """Run all in turn, so that a noisy minute affects all."""
    runs: Runs = defaultdict(list)
    with server() as postgres, folder() as place:
        for _ in range(rounds):
            for module in ("duly_drain", "raw_drain"):
                url = await fresh(kind, postgres, place)
                result = in_process(module, "--database", url, "--count", count)
                runs[result["peer"]].append(result)
            for peer, jobs, options in PEERS[kind]:
                url = await fresh(kind, postgres, place)
                runs[peer].append(drain_peer(peer.partition(",")[0], url, jobs, **options))
    return runs


def show(kind: str, runs: Runs) -> None:
    """Print medians and ratios; a peer counts with the best of its settings."""
    ours = statistics.median(run["per_second"] for run in runs["duly"])
    print(f"\n{kind}: duly {ours:,.0f}/s (runs: {_each(runs['duly'])})")
    last = runs["duly"][-1]
    print(
        f"  client CPU {last['client_microseconds']} µs, commits a delivery "
        f"{last['commits_per_delivery']}, memory grew {last['grew_megabytes']} MB"
    )
    for peer, each in runs.items():
        if peer == "duly":
            continue
        theirs = _best(each)
        wanted = WANTED[kind].get(peer)
        aim = f" (wanted: {wanted:g})" if wanted else ""
        if peer == "raw":
            print(f"  raw limit {theirs:,.0f}/s, our share {ours / theirs:.0%} (aim: 60%)")
        else:
            print(f"  {peer} {theirs:,.0f}/s: {ours / theirs:.1f} times{aim}")


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
