"""How exactly limits of handlers are kept by several workers on PostgreSQL.

python -m benchmarks.limits [--workers 3] [--seconds 30] [--rate 100] [--in-flight 20]

Counted by a receiver to which the handlers report their start and end: the least and the most that
started in a second with a rate limit, after the first second, and the most in flight at once with
an in-flight limit. Also the transactions of the store in a second.
"""

import argparse
import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import uvloop

import duly
from benchmarks.places import ROOT, commits, folder, fresh, server

START, END = b"+", b"-"


def build(
    url: str, place: str, rate: float | None = None, in_flight: int | None = None
) -> duly.App:
    """An app whose handlers report to the receiver at the socket."""
    app, to = duly.App(url, concurrency=50), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if place:
        to.connect(place)

    @app.handler("paced", rate=rate, keep_result=False)
    async def paced(_: duly.Delivery[object]) -> None:
        to.send(START)
        to.send(END)

    @app.handler("crowded", in_flight=in_flight, keep_result=False)
    async def crowded(_: duly.Delivery[object]) -> None:
        to.send(START)
        await asyncio.sleep(0.05)
        to.send(END)

    return app


class Receiver:
    """Counts the starts by second, and the deliveries that run."""

    def __init__(self, place: Path) -> None:
        self._from = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._from.bind(str(place))
        self.first = threading.Event()
        self.began_on = 0.0
        self.started: Counter[int] = Counter()
        self.inside = self.most = 0
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        while True:
            word, now = self._from.recv(16), time.monotonic()
            if not self.first.is_set():
                self.began_on = now
                self.first.set()
            if word == START:
                self.started[int(now - self.began_on)] += 1
            self.inside += 1 if word == START else -1
            self.most = max(self.most, self.inside)


def started(command: list[str]) -> subprocess.Popen[bytes]:
    """A worker process."""
    return subprocess.Popen(command, cwd=ROOT)


async def measured(
    target: str, url: str, place: Path, options: argparse.Namespace
) -> tuple[Receiver, float]:
    """The counts of a receiver while the workers run, and the transactions in a second."""
    receiver, limits = Receiver(place), [str(options.rate), str(options.in_flight)]
    command = [sys.executable, "-m", "benchmarks.limits", "--worker", url, str(place), *limits]
    async with build(url, "", options.rate, options.in_flight) as app:
        many = int(options.seconds * 1.5 * max(options.rate, options.in_flight / 0.05))
        await app.deliver_many((target, {"n": n}) for n in range(many))
        workers = [started(command) for _ in range(options.workers)]
        try:
            await asyncio.to_thread(receiver.first.wait)
            before = await commits(app)
            await asyncio.sleep(options.seconds + 1.5)
            return receiver, (await commits(app) - before) / (options.seconds + 1.5)
        finally:
            for each in workers:
                each.kill()
                each.wait()


async def main(options: argparse.Namespace) -> None:
    """Measure both limits, one after the other."""
    with server() as postgres, folder() as place:
        url = await fresh("postgres", postgres, place)
        paced, rounds = await measured("paced", url, place / "paced", options)
        counts = [paced.started[second] for second in range(1, int(options.seconds) + 1)]
        print(
            f"rate={options.rate:g}, {options.workers} workers, {options.seconds:g} s after the "
            f"first: from {min(counts)} to {max(counts)} started in a second; "
            f"{rounds:.0f} transactions a second"
        )
        print(" ".join(map(str, counts)))
        url = await fresh("postgres", postgres, place)
        crowded, rounds = await measured("crowded", url, place / "crowded", options)
        started_each = sum(crowded.started.values()) / (options.seconds + 1.5)
        print(
            f"in_flight={options.in_flight}, {options.workers} workers: at most {crowded.most} in "
            f"flight, {started_each:.0f} started in a second; "
            f"{rounds:.0f} transactions a second"
        )


async def work(url: str, place: str, rate: str, in_flight: str) -> None:
    """One worker."""
    async with build(url, place, float(rate), int(in_flight)) as app:
        await app.run()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        uvloop.run(work(*sys.argv[2:]))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--workers", type=int, default=3)
        parser.add_argument("--seconds", type=float, default=30.0)
        parser.add_argument("--rate", type=float, default=100.0)
        parser.add_argument("--in-flight", type=int, default=20)
        uvloop.run(main(parser.parse_args()))
