"""What several workers cost: the CPU of a delivery with one process, and with more.

python -m benchmarks.processes [--rounds 3] [--count 60000] [--processes 1 2 4 8]
"""

import argparse
import asyncio
import os
import statistics
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta

import duly
from benchmarks.members import Member, cpu_seconds, server_cpu_seconds
from benchmarks.places import folder, fresh, server
from tests.support.postgres import Server

WANTED = 1.4
"""How many times the CPU of one process eight may take for a delivery."""

START_SECONDS = 20
"""How long after it was stored all is due: the processes have started by then."""
SETTLED_SECONDS = 3


@dataclass(frozen=True)
class Run:
    """The result of one drain; CPU in microseconds for each delivery."""

    per_second: float
    workers: float
    server: float

    @property
    def total(self) -> float:
        """All CPU for a delivery."""
        return self.workers + self.server


async def drain(postgres: Server, database: str, many: int, count: int) -> Run:
    """Fill a store, and let so many processes drain it; they have started before all is due."""
    async with duly.App(database) as app:
        app.expect("noop")
        due_at = app.clock.now() + timedelta(seconds=START_SECONDS)
        await app.deliver_many(
            {"target": "noop", "payload": {"n": n}, "at": due_at} for n in range(count)
        )
        with ExitStack() as stack:
            members = [
                stack.enter_context(Member("noop_worker", "--database", database))
                for _ in range(many)
            ]
            for member in members:
                member.write_line("go")
            left = (due_at - app.clock.now()).total_seconds()
            assert left > SETTLED_SECONDS, "the processes took too long to start"
            await asyncio.sleep(left)
            before, began = _used(postgres, members), time.perf_counter()
            while await _is_left(app):  # noqa: ASYNC110 - polling is enough
                await asyncio.sleep(0.05)
            seconds = time.perf_counter() - began
            workers, served = (
                (now - then) / count * 1e6
                for now, then in zip(_used(postgres, members), before, strict=True)
            )
            completed = sum(member.end()["completed"] for member in members)
    assert completed == count, f"{completed} completed of {count}"
    return Run(count / seconds, workers, served)


async def _is_left(app: duly.App) -> bool:
    async with app.store.database.shared() as connection:  # type: ignore[attr-defined]
        return bool(await connection.fetchval("select exists (select from duly.agenda)"))


def _used(postgres: Server, members: list[Member]) -> tuple[float, float]:
    return sum(cpu_seconds(each.pid) for each in members), server_cpu_seconds(postgres)


async def main(rounds: int, count: int, processes: list[int]) -> None:
    """Run all in turn, so that a noisy minute affects all."""
    runs: defaultdict[int, list[Run]] = defaultdict(list)
    with server() as postgres, folder() as place:
        for _ in range(rounds):
            for many in processes:
                database = await fresh("postgresql", postgres, place)
                runs[many].append(await drain(postgres, database, many, count))
    print(f"{count:,} no-op deliveries on PostgreSQL, {os.cpu_count()} cores")
    one = statistics.median(run.total for run in runs[processes[0]])
    for many, each in runs.items():
        rate, workers, served, total = (
            statistics.median(getattr(run, name) for run in each)
            for name in ("per_second", "workers", "server", "total")
        )
        wanted = f" (wanted: at most {WANTED})" if many == max(processes) else ""
        print(
            f"  {many} processes: {rate:,.0f}/s; CPU a delivery: workers {workers:.0f} µs, "
            f"server {served:.0f} µs: {total / one:.2f} times{wanted}"
        )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--count", type=int, default=60_000)
    arguments.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8])
    asyncio.run(main(**vars(arguments.parse_args())))
