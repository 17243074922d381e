"""Whether a rate limit of an endpoint is kept exactly by all processes together."""

from contextlib import ExitStack
from pathlib import Path

import duly
from benchmarks.members import Member, Sink, cpu_seconds
from benchmarks.places import fresh
from benchmarks.webhooks.load import add_endpoints, fill
from benchmarks.webhooks.sizes import Sizes
from tests.support.postgres import Server

RATE = 50
PROCESSES = {"postgresql": 3, "sqlite": 1}


async def measure(kind: str, postgres: Server, place: Path, sink: Sink, sizes: Sizes) -> None:
    """Drain a backlog for a while; the time counts from the first arrival."""
    database = await fresh(kind, postgres, place)
    await add_endpoints(database, {"paced": sink.url("")}, rate=RATE)
    await fill(database, duly.endpoint("paced"), sizes.paced_backlog)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Member("webhooks.worker", "--database", database))
            for _ in range(PROCESSES[kind])
        ]
        sink.report()  # requests of a previous worker
        before = [cpu_seconds(each.pid) for each in workers]
        for each in workers:
            each.write_line("go")
        await sink.arrived(int(RATE * (sizes.paced_seconds + 1)))
        used = [cpu_seconds(each.pid) - start for each, start in zip(workers, before, strict=True)]
        arrivals = sink.report()["arrivals"]
        counted = [each.end()["completed"] for each in workers]
    show(arrivals, sizes.paced_seconds, counted, used)


def show(arrivals: list[float], seconds: float, counted: list[int], used: list[float]) -> None:
    """Print how many arrived, second by second, and through which process."""
    ages = [at - arrivals[0] for at in arrivals if at - arrivals[0] < seconds]
    per_second = len(ages) / seconds
    each = [sum(1 for age in ages if int(age) == second) for second in range(int(seconds))]
    busy = ", ".join(f"{one / (arrivals[-1] - arrivals[0]):.1%}" for one in used)
    print(
        f"  {per_second:.1f} a second over {seconds:g} s, {per_second / RATE - 1:+.1%} of {RATE} "
        f"(wanted: within 5%); in each second {min(each)} to {max(each)}"
    )
    print(f"    through each process: {', '.join(map(str, counted))}; CPU of a core: {busy}")
