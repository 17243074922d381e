"""Time from accepted to handler start, with the worker in another process, and the idle CPU.

python -m benchmarks.latency [--rate 100] [--seconds 10]
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


async def work(database: str) -> None:
    """The worker: prints each delivery's lateness in milliseconds."""
    app = duly.App(database)

    @app.handler("noop")
    async def noop(delivery: duly.Delivery[object]) -> None:
        os.write(1, f"{delivery.late_by.total_seconds() * 1000:.3f}\n".encode())

    async with app:
        await app.run()


async def produce(database: str, rate: int, seconds: float) -> int:
    """Accept deliveries at a constant rate, each due at once."""
    app = duly.App(database)
    app.expect("noop")
    async with app:
        count = int(rate * seconds)
        begun = time.perf_counter()
        for n in range(count):
            await asyncio.sleep(max(0.0, begun + n / rate - time.perf_counter()))
            await app.deliver("noop", {"n": n})
        return count


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main(rate: int, seconds: float) -> None:
    """Measure on PostgreSQL."""
    with server() as postgres, folder() as place:
        url = await fresh("postgresql", postgres, place)
        async with duly.App(url):
            pass
        worker = subprocess.Popen(  # noqa: ASYNC220 - it is quick
            [sys.executable, "-m", "benchmarks.latency", "--work", url],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        try:
            await produce(url, 20, 1)
            count = 20 + await produce(url, rate, seconds)
            assert worker.stdout is not None
            late = [float(worker.stdout.readline()) for _ in range(count)][20:]
            late.sort()
            before = cpu_seconds(worker.pid)
            await asyncio.sleep(10)
            idle = (cpu_seconds(worker.pid) - before) / 10
        finally:
            worker.terminate()
            worker.wait()
    report = {
        "rate": rate,
        "p50_ms": round(statistics.median(late), 2),
        "p99_ms": round(late[int(len(late) * 0.99)], 2),
        "idle_cpu": f"{idle:.2%}",
    }
    print(json.dumps(report), "(wanted: p50 5 ms, p99 30 ms, idle under 1%)")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rate", type=int, default=100)
    arguments.add_argument("--seconds", type=float, default=10)
    arguments.add_argument("--work")
    given = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.ERROR)
    uvloop.install()
    asyncio.run(work(given.work) if given.work else main(given.rate, given.seconds))
