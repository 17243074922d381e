"""The cost of due suspects for other deliveries: three workers, each with a long-running one.

python -m benchmarks.suspects [--rate 100] [--seconds 8]

The time from accepted to handler start, first without suspects, then with a hundred of them due.
"""

import argparse
import asyncio
import json
import logging
import os
import statistics
import subprocess
import sys
import time

import uvloop

import duly
from benchmarks.places import ROOT, folder, fresh, server

WORKERS, SUSPECTS = 3, 100


async def work(database: str) -> None:
    """A worker: prints the lateness of each ordinary delivery in milliseconds."""
    app = duly.App(database)

    @app.handler("quick")
    async def quick(delivery: duly.Delivery[object]) -> None:
        os.write(1, f"{delivery.late_by.total_seconds() * 1000:.3f}\n".encode())

    @app.handler("long", timeout=600)
    async def long(_delivery: duly.Delivery[object]) -> None:
        await asyncio.sleep(600)

    @app.handler("suspect")
    async def suspect(_delivery: duly.Delivery[object]) -> None:
        await asyncio.sleep(0.01)

    async with app:
        await app.run()


async def produce(app: duly.App, rate: int, seconds: float) -> int:
    """Accept ordinary deliveries at a constant rate, each due at once."""
    count = int(rate * seconds)
    begun = time.perf_counter()
    for n in range(count):
        await asyncio.sleep(max(0.0, begun + n / rate - time.perf_counter()))
        await app.deliver("quick", {"n": n})
    return count


async def make_suspects(app: duly.App) -> None:
    """Deliver suspects: deliveries with which two workers died."""
    await app.deliver_many([("suspect", None)] * SUSPECTS)
    async with app.store.database.shared() as connection:  # type: ignore[attr-defined]
        await connection.execute(
            "update duly.agenda a set crashes = 2, priority = 0 from duly.targets t"
            " where t.id = a.target and t.name = 'suspect'"
        )


def read(workers: list[subprocess.Popen[bytes]], wanted: int) -> list[float]:
    """Read this many lines of all workers."""
    found: list[float] = []
    while len(found) < wanted:
        for each in workers:
            assert each.stdout is not None
            found += [float(line) for line in (each.stdout.read() or b"").split()]
        time.sleep(0.01)
    return sorted(found)


async def main(rate: int, seconds: float) -> None:
    """Measure on PostgreSQL."""
    with server() as postgres, folder() as place:
        url = await fresh("postgresql", postgres, place)
        async with duly.App(url) as app:
            app.expect("quick", "long", "suspect")
            command = [sys.executable, "-m", "benchmarks.suspects", "--work", url]
            workers = [start(command) for _ in range(WORKERS)]
            try:
                for each in workers:
                    assert each.stdout is not None
                    os.set_blocking(each.stdout.fileno(), False)
                read(workers, await produce(app, 20, 2))
                await hold_each(app)
                alone = read(workers, await produce(app, rate, seconds))
                await make_suspects(app)
                with_suspects = read(workers, await produce(app, rate, seconds))
            finally:
                for each in workers:
                    each.kill()
                    each.wait()
    report = {"without": summary(alone), "with": summary(with_suspects)}
    ratio = p99(with_suspects) / p99(alone)
    print(json.dumps(report), f"p99 {ratio:.2f} times (wanted at most 2)")


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a process."""
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


async def hold_each(app: duly.App) -> None:
    """Give every worker a delivery that runs long."""
    held: set[int] = set()
    while len(held) < WORKERS:
        await app.deliver("long")
        await asyncio.sleep(0.1)
        held = {each.worker for each in await app.list(state="processing") if each.worker}


def p99(late: list[float]) -> float:
    """The 99th percentile."""
    return late[int(len(late) * 0.99)]


def summary(late: list[float]) -> dict[str, float]:
    """The values to print."""
    middle, most = statistics.median(late), p99(late)
    return {"p50_ms": round(middle, 2), "p99_ms": round(most, 2), "most_ms": round(late[-1], 2)}


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rate", type=int, default=100)
    arguments.add_argument("--seconds", type=float, default=8)
    arguments.add_argument("--work")
    given = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.ERROR)
    uvloop.install()
    asyncio.run(work(given.work) if given.work else main(given.rate, given.seconds))
