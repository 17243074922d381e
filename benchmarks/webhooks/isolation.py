"""Whether two hundred healthy endpoints notice one that hangs with a long queue before it."""

import asyncio
import json
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duly
from benchmarks.places import fresh
from benchmarks.webhooks.load import SETTINGS, add_endpoints, fill, produce
from benchmarks.webhooks.members import Member, Sink, cpu_seconds
from benchmarks.webhooks.sizes import Sizes
from benchmarks.windows import WINDOW_SECONDS, Waited, p99s
from tests.support.postgres import Server

HEALTHY = 200
WARM_UP_SECONDS = 2.0
LAST_SECONDS = 10.0
BAD_HOST = "127.0.2.1"
MOST_BUSY = 0.85
"""A worker that is busier, with nobody in its way, has a queue at every noise: nothing can be said
of who causes it."""


@dataclass(frozen=True)
class Watched:
    """What was seen of the healthy ones: waits in seconds, without those of the first moments."""

    waits: list[Waited]
    missing: int
    hung: int
    busy: float
    circuits: int

    @property
    def p50(self) -> float:
        """The wait in the middle, in milliseconds."""
        return 1000 * statistics.median(wait for _, wait in self.waits)


class Isolation:
    """One worker as it comes; the healthy ones are watched alone and beside the one that hangs."""

    def __init__(self, kind: str, postgres: Server, place: Path, sink: Sink, sizes: Sizes) -> None:
        self._kind = kind
        self._postgres = postgres
        self._place = place
        self._sink = sink
        self._sizes = sizes

    async def measure(self) -> None:
        """Plain URLs, then named endpoints; alone and beside in turn."""
        for named in (False, True):
            found: dict[bool, list[Watched]] = defaultdict(list)
            for _ in range(self._sizes.rounds):
                for beside in (False, True):
                    found[beside].append(await self._watch(named, beside))
            show("named endpoints" if named else "plain URLs", found[False], found[True])

    async def _watch(self, named: bool, beside: bool) -> Watched:
        database = await fresh(self._kind, self._postgres, self._place)
        targets = {f"e{n}": self._sink.url("late", f"127.0.1.{n}") for n in range(1, HEALTHY + 1)}
        await add_endpoints(database, targets if named else {})
        if beside:
            await self._fill_bad(database, named)
        return await self._run(database, list(targets) if named else list(targets.values()))

    async def _fill_bad(self, database: str, named: bool) -> None:
        url, timeout = self._sink.url("hang", BAD_HOST), self._sizes.timeout
        if named:
            await add_endpoints(database, {"bad": url}, timeout=timeout)
            await fill(database, duly.endpoint("bad"), self._sizes.waiting)
        else:
            await fill(database, duly.webhook(url, timeout=timeout), self._sizes.waiting)

    async def _run(self, database: str, targets: list[str]) -> Watched:
        seconds = WARM_UP_SECONDS + self._sizes.seconds
        asked = {"targets": targets, "rate": self._sizes.each_rate, "seconds": seconds}
        inside = ["--produce", json.dumps(asked)] if self._kind == "sqlite" else []
        with Member("worker", "--database", database, *inside) as worker:
            self._sink.report()  # what a worker before still sent
            before = cpu_seconds(worker.pid)
            worker.say("go")
            made = await (asyncio.to_thread(worker.hear) if inside else _produce(database, asked))
            busy = (cpu_seconds(worker.pid) - before) / seconds
            await self._sink.arrived(int(made), LAST_SECONDS)
            seen = self._sink.report()
            circuits = worker.end().get("CircuitOpened", 0)
        missing = int(made) - len(seen["late"])
        return Watched(_after_warm_up(seen["late"]), missing, seen["hanging"], busy, circuits)


async def _produce(database: str, asked: dict[str, Any]) -> int:
    async with duly.App(database, **SETTINGS) as app:
        return await produce(app, **asked)


def _after_warm_up(late: list[Waited]) -> list[Waited]:
    begun = min(asked for asked, _ in late)
    return [(asked, wait) for asked, wait in late if asked - begun >= WARM_UP_SECONDS]


def show(what: str, alone: list[Watched], beside: list[Watched]) -> None:
    """Print the p99 of the window in the middle of all rounds, and the ratio."""
    without, with_it = _p99(alone), _p99(beside)
    print(
        f"  {what}, asked for to arrived, p99 of {WINDOW_SECONDS:g} s in the middle: {without:.1f} "
        f"ms alone, {with_it:.1f} ms beside one that hangs: {_verdict(alone, with_it / without)}"
    )
    for name, each in (("alone", alone), ("beside", beside)):
        busy = statistics.median(one.busy for one in each)
        print(
            f"    {name}: p50 {_p50(each):.1f} ms, worker {busy:.0%} of a core, "
            f"{sum(one.missing for one in each)} never arrived, "
            f"{sum(one.hung for one in each)} hung, {sum(one.circuits for one in each)} circuits "
            "opened"
        )


def _verdict(alone: list[Watched], times: float) -> str:
    busy = statistics.median(one.busy for one in alone)
    if busy > MOST_BUSY or any(one.missing for one in alone):
        return f"{times:.2f} times, but the worker can hardly keep up alone: try --each-rate 5"
    return f"{times:.2f} times (wanted: 1.5)"


def _p50(runs: list[Watched]) -> float:
    return statistics.median(run.p50 for run in runs)


def _p99(runs: list[Watched]) -> float:
    return 1000 * statistics.median(one for run in runs for one in p99s(run.waits))
