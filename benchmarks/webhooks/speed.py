"""How many durable webhooks a second, compared with the bare client loop in the same run."""

import os
import statistics
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import duly
from benchmarks.members import Member, Sink, cpu_seconds, server_cpu_seconds
from benchmarks.places import ROOT, fresh
from benchmarks.webhooks.load import add_endpoints, fill
from benchmarks.webhooks.sizes import Sizes
from tests.support.postgres import Server


@dataclass(frozen=True)
class Run:
    """The result of one drain; CPU in microseconds for each delivery."""

    per_second: float
    client: float
    server: float
    sink: float

    @property
    def cores(self) -> float:
        """How many cores were busy."""
        return (self.client + self.server + self.sink) * self.per_second / 1e6


Runs = dict[str, list[Run]]


class Speed:
    """The runs of one store, in turn, so that a noisy minute affects all."""

    def __init__(self, kind: str, postgres: Server, place: Path, sink: Sink, sizes: Sizes) -> None:
        self._kind = kind
        self._postgres = postgres
        self._place = place
        self._sink = sink
        self._count = sizes.count
        self._in_flight = sizes.in_flight
        self._rounds = sizes.rounds
        self._before = sizes.before
        self._processes = 2 if kind == "postgresql" else 1

    async def measure(self) -> Runs:
        """Run all in turn."""
        runs: Runs = defaultdict(list)
        for _ in range(self._rounds):
            for many in (1, 2):
                runs[f"bare {many}"].append(await self._bare(many))
            for many in range(1, self._processes + 1):
                runs[f"duly {many}"].append(await self._duly(many))
            runs["named 1"].append(await self._duly(1, named=True))
            if self._before is not None:
                runs["before 1"].append(await self._duly(1, root=self._before))
        return runs

    async def _bare(self, many: int) -> Run:
        arguments = ["--url", self._sink.url(""), "--count", self._count // many]
        arguments += ["--in-flight", self._in_flight]
        with ExitStack() as stack:
            each = [stack.enter_context(Member("webhooks.bare", *arguments)) for _ in range(many)]
            return await self._timed(each)

    async def _duly(self, many: int, *, named: bool = False, root: Path = ROOT) -> Run:
        database = await fresh(self._kind, self._postgres, self._place)
        if named:
            await add_endpoints(database, {"sink": self._sink.url("")})
            await fill(database, duly.endpoint("sink"), self._count)
        else:
            await fill(database, duly.webhook(self._sink.url("")), self._count)
        # No single target gets more than half of a process's slots.
        arguments = ["--database", database, "--concurrency", 2 * self._in_flight]
        with ExitStack() as stack:
            each = [
                stack.enter_context(Member("webhooks.worker", *arguments, root=root))
                for _ in range(many)
            ]
            run = await self._timed(each)
            counted = [member.end() for member in each]
        assert sum(one["completed"] for one in counted) == self._count, counted
        return run

    async def _timed(self, members: Sequence[Member]) -> Run:
        before = self._used(members)
        for member in members:
            member.write_line("go")
        await self._sink.arrived(self._count)
        spent = [after - start for after, start in zip(self._used(members), before, strict=True)]
        arrivals = self._sink.report()["arrivals"]
        assert len(arrivals) == self._count, f"{len(arrivals)} arrived of {self._count}"
        per_second = (self._count - 1) / (arrivals[-1] - arrivals[0])
        return Run(per_second, *(each / self._count * 1e6 for each in spent))

    def _used(self, members: Sequence[Member]) -> tuple[float, float, float]:
        clients = sum(cpu_seconds(each.pid) for each in members)
        return clients, server_cpu_seconds(self._postgres), cpu_seconds(self._sink.pid)


def show(runs: Runs) -> None:
    """Print medians, ratios, and the use of CPU."""
    bare, ours = _median(runs["bare 1"]), _median(runs["duly 1"])
    share = ours.per_second / bare.per_second
    print(f"  one process: {_summary(ours)}")
    print(f"  bare loop:   {_summary(bare)}")
    print(f"    our share {share:.0%} (wanted: 55%)")
    if "before 1" in runs:
        before = _median(runs["before 1"])
        print(f"  before:      {_summary(before)}")
        print(f"    {ours.per_second / before.per_second:.2f} times (wanted: 1.9)")
    named = _median(runs["named 1"])
    print(f"  to a named endpoint: {_summary(named)}")
    print(f"    our share {named.per_second / bare.per_second:.0%} (wanted: 55%)")
    if "duly 2" in runs:
        _show_two(ours, _median(runs["duly 2"]), bare, _median(runs["bare 2"]))


def _show_two(one: Run, two: Run, bare: Run, bares: Run) -> None:
    times, limit = two.per_second / one.per_second, bares.per_second / bare.per_second
    most = 2e6 / (two.client + two.server + two.sink) / one.per_second
    print(f"  two processes: {_summary(two)}")
    print(
        f"    {times:.2f} times one (wanted: 1.7); two bare loops {limit:.2f} times one. "
        f"Two cores wholly busy would allow {most:.2f}"
    )


def _summary(run: Run) -> str:
    return (
        f"{run.per_second:,.0f}/s; CPU a delivery: client {run.client:.0f} µs, server "
        f"{run.server:.0f} µs, sink {run.sink:.0f} µs; "
        f"{run.cores:.2f} of {os.cpu_count()} cores busy"
    )


def _median(runs: list[Run]) -> Run:
    return Run(
        *(
            statistics.median(getattr(run, name) for run in runs)
            for name in ("per_second", "client", "server", "sink")
        )
    )
