"""Runs seeds, and makes the report of one that fails: which faults it needs, and how to repeat it.

python -m tests.simulation.seeds [--seeds 1000] [--first 0] [--processes 2]
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.world import FAULTS, World, run_seed

AT_ONCE = 10


class SeedFailed(AssertionError):
    """A seed failed; the message says with which faults, and how to repeat it."""


def run_seeds(seeds: Iterable[int], *, explains: bool = True) -> int:
    """Run seeds, and return how many faults there were; SeedFailed at the first that fails.

    To explain a failure, the seed is run again several times.
    """
    faults = 0
    for seed in seeds:
        problem = _problem(seed)
        if isinstance(problem, World):
            faults += sum(problem.faults.values())
        else:
            text = _report(seed, problem) if explains else f"seed {seed} failed: {problem!r}"
            raise SeedFailed(text) from problem
    return faults


def _problem(seed: int, masked: frozenset[str] = frozenset()) -> World | Exception:
    try:
        return run_seed(seed, masked)
    except Exception as error:
        return error


def _report(seed: int, problem: Exception) -> str:
    """Leave out one kind of fault after the other as long as it still fails."""
    masked: frozenset[str] = frozenset()
    for kind in FAULTS:
        if isinstance(found := _problem(seed, masked | {kind}), Exception):
            masked, problem = masked | {kind}, found
    needed = ", ".join(kind for kind in FAULTS if kind not in masked) or "no fault at all"
    return (
        f"seed {seed} failed with {needed}: {type(problem).__name__}: {problem}; repeat it with "
        f"`python -m tests.simulation.seeds --first {seed} --seeds 1`"
    )


def main(first: int, seeds: int, processes: int) -> int:
    """Run many seeds in several processes; print progress, and each seed that fails."""
    started, done, failed, faults = time.perf_counter(), 0, 0, 0
    blocks = [
        range(at, min(at + AT_ONCE, first + seeds)) for at in range(first, first + seeds, AT_ONCE)
    ]
    with ProcessPoolExecutor(processes, initializer=_quiet) as pool:
        futures = [pool.submit(run_seeds, block) for block in blocks]
        for block, future in zip(blocks, futures, strict=True):
            try:
                faults += future.result()
            except SeedFailed as error:
                failed += 1
                print(error, flush=True)
            done += len(block)
            rate = done / (time.perf_counter() - started) * 60
            print(f"\r{done} of {seeds} seeds, {rate:,.0f} a minute", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(f"{seeds} seeds with {faults} faults of processes: {failed} failed")
    return 1 if failed else 0


def _quiet() -> None:
    logging.getLogger("duly").setLevel(logging.CRITICAL)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=1000)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--processes", type=int, default=2)
    sys.exit(main(**vars(arguments.parse_args())))
