"""Whether claiming costs the same with a million due, five million to come, and ten thousand.

python -m benchmarks.scale [--store postgresql|sqlite] [--due 1000000] [--future 5000000]
"""

import argparse
import asyncio
import statistics
import sys
import time
from datetime import UTC, datetime

import duly
from benchmarks.filling import fill
from benchmarks.places import folder, fresh, in_process, server
from duly.domain.identity import token
from duly.ports import Ask

SLOTS = 100
ROUNDS = 60
ENOUGH = 10_000


async def claim_cost(app: duly.App, worker: int) -> float:
    """The median time of one claim of a hundred lanes, survey included, in milliseconds."""
    times = []
    target = (await app.store.targets.numbers(["noop"], create=False))["noop"]
    for number in range(1, ROUNDS + 1):
        given = token(worker, number)
        started = time.perf_counter()
        await app.store.agenda.survey()
        asks = [Ask(5, target, datetime(2000, 1, 1, tzinfo=UTC), SLOTS)]
        claimed = await app.store.agenda.claim(given, SLOTS, asks)
        times.append(time.perf_counter() - started)
        assert len(claimed) == SLOTS
        await app.store.agenda.release(given)
    return statistics.median(times) * 1000


async def cost_with(url: str, due: int, future: int) -> float:
    """Fill a new store and measure."""
    async with duly.App(url) as app:
        started = time.perf_counter()
        if future:
            await fill(app, "noop", future, seconds_ahead=86400)
        await fill(app, "noop", due, seconds_ahead=-10)
        seconds = time.perf_counter() - started
        print(f"  filled {due:,} due and {future:,} to come in {seconds:.0f} s", file=sys.stderr)
        worker = await app.store.workers.register("scale", 3600, SLOTS, ["noop"])
        return await claim_cost(app, worker)


async def main(kinds: list[str], due: int, future: int) -> None:
    """Measure each store."""
    for kind in kinds:
        with server() as postgres, folder() as place:
            few = await cost_with(await fresh(kind, postgres, place), ENOUGH, 0)
            print(f"{kind}: claim of {SLOTS} lanes with {ENOUGH:,} due: {few:.2f} ms")
            many_url = await fresh(kind, postgres, place)
            many = await cost_with(many_url, due, 0)
            print(f"  with {due:,} due: {many:.2f} ms, {many / few:.2f} times (wanted: 1.5)")
            later = await cost_with(await fresh(kind, postgres, place), ENOUGH, future)
            print(
                f"  with {future:,} to come: {later:.2f} ms, {later / few:.2f} times (wanted: 1.5)"
            )
            drained = in_process("duly_drain", "--database", many_url, "--count", due, "--filled")
            print(
                f"  draining {due:,}: {drained['per_second']:,.0f}/s, "
                f"memory grew {drained['grew_megabytes']} MB (wanted: 60)"
            )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=["postgresql", "sqlite"], action="append")
    arguments.add_argument("--due", type=int, default=1_000_000)
    arguments.add_argument("--future", type=int, default=5_000_000)
    given = arguments.parse_args()
    asyncio.run(main(given.store or ["postgresql", "sqlite"], given.due, given.future))
