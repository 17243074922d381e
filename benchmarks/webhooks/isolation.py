"""Whether two hundred healthy endpoints are affected by one that hangs with a long queue."""

import asyncio
import json
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duly
from benchmarks.members import Member, Sink, cpu_seconds
from benchmarks.places import fresh
from benchmarks.webhooks.load import SETTINGS, add_endpoints, fill, produce
from benchmarks.webhooks.sizes import Sizes
from benchmarks.windows import WINDOW_SECONDS, Waited, p99s
from tests.support.postgres import Server

HEALTHY = 200
WARM_UP_SECONDS = 2.0
LAST_SECONDS = 10.0
BAD_HOST = "127.0.2.1"
MOST_BUSY = 0.85
"""A busier worker has a queue after any noise even alone, so that the result would not show the
cause."""


@dataclass(frozen=True)
class Measured:
    """The healthy endpoints: waits in seconds, without those of the warm-up."""

    waits: list[Waited]
    missing: int
    hung: int
    busy: float
    circuits: int

    @property
    def p50(self) -> float:
        """The median wait in milliseconds."""
        return 1000 * statistics.median(wait for _, wait in self.waits)


class Isolation:
    """One default worker; healthy endpoints are measured alone, and with one that hangs."""

    def __init__(self, kind: str, postgres: Server, place: Path, sink: Sink, sizes: Sizes) -> None:
        self._kind = kind
        self._postgres = postgres
        self._place = place
        self._sink = sink
        self._sizes = sizes

    async def measure(self) -> None:
        """Plain URLs, then named endpoints; alone and with the hanging one in turn."""
        for named in (False, True):
            found: dict[bool, list[Measured]] = defaultdict(list)
            for _ in range(self._sizes.rounds):
                for hanging in (False, True):
                    found[hanging].append(await self._watch(named, hanging))
            show("named endpoints" if named else "plain URLs", found[False], found[True])

    async def _watch(self, named: bool, hanging: bool) -> Measured:
        database = await fresh(self._kind, self._postgres, self._place)
        targets = {f"e{n}": self._sink.url("late", f"127.0.1.{n}") for n in range(1, HEALTHY + 1)}
        await add_endpoints(database, targets if named else {})
        if hanging:
            await self._fill_bad(database, named)
        return await self._run(database, list(targets) if named else list(targets.values()))

    async def _fill_bad(self, database: str, named: bool) -> None:
        url, timeout = self._sink.url("hang", BAD_HOST), self._sizes.timeout
        if named:
            await add_endpoints(database, {"bad": url}, timeout=timeout)
            await fill(database, duly.endpoint("bad"), self._sizes.waiting)
        else:
            await fill(database, duly.webhook(url, timeout=timeout), self._sizes.waiting)

    async def _run(self, database: str, targets: list[str]) -> Measured:
        seconds = WARM_UP_SECONDS + self._sizes.seconds
        load = {"targets": targets, "rate": self._sizes.each_rate, "seconds": seconds}
        inside = ["--produce", json.dumps(load)] if self._kind == "sqlite" else []
        with Member("webhooks.worker", "--database", database, *inside) as worker:
            self._sink.report()  # requests of a previous worker
            before = cpu_seconds(worker.pid)
            worker.write_line("go")
            made = await (
                asyncio.to_thread(worker.read_line) if inside else _produce(database, load)
            )
            busy = (cpu_seconds(worker.pid) - before) / seconds
            await self._sink.arrived(int(made), LAST_SECONDS)
            seen = self._sink.report()
            circuits = worker.end().get("CircuitOpened", 0)
        missing = int(made) - len(seen["late"])
        return Measured(_after_warm_up(seen["late"]), missing, seen["hanging"], busy, circuits)


async def _produce(database: str, load: dict[str, Any]) -> int:
    async with duly.App(database, **SETTINGS) as app:
        return await produce(app, **load)


def _after_warm_up(late: list[Waited]) -> list[Waited]:
    begun = min(load for load, _ in late)
    return [(load, wait) for load, wait in late if load - begun >= WARM_UP_SECONDS]


def show(what: str, alone: list[Measured], hanging: list[Measured]) -> None:
    """Print the median p99 of all windows, and the ratio."""
    without, with_it = _p99(alone), _p99(hanging)
    print(
        f"  {what}, requested to arrived, p99 of {WINDOW_SECONDS:g} s in the middle: {without:.1f} "
        f"ms alone, {with_it:.1f} ms with one that hangs: {_verdict(alone, with_it / without)}"
    )
    for name, each in (("alone", alone), ("with one that hangs", hanging)):
        busy = statistics.median(one.busy for one in each)
        print(
            f"    {name}: p50 {_p50(each):.1f} ms, worker {busy:.0%} of a core, "
            f"{sum(one.missing for one in each)} never arrived, "
            f"{sum(one.hung for one in each)} hung, {sum(one.circuits for one in each)} circuits "
            "opened"
        )


def _verdict(alone: list[Measured], times: float) -> str:
    busy = statistics.median(one.busy for one in alone)
    if busy > MOST_BUSY or any(one.missing for one in alone):
        return f"{times:.2f} times, but the worker can hardly keep up alone: try --each-rate 5"
    return f"{times:.2f} times (wanted: 1.5)"


def _p50(runs: list[Measured]) -> float:
    return statistics.median(run.p50 for run in runs)


def _p99(runs: list[Measured]) -> float:
    return 1000 * statistics.median(one for run in runs for one in p99s(run.waits))
