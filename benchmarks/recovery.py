"""The cost of recovery for other deliveries: many dead letters under a policy.

python -m benchmarks.recovery [--dead 100000] [--rate 100] [--seconds 10] [--rounds 3]

The time from accepted to handler start of other deliveries, in turn: without a policy, while a
policy is applied to all dead letters, and while they are retried and die again, at the default rate
or `--revived` a second. Also how much memory the worker has before and after.
"""

import argparse
import asyncio
import json
import logging
import os
import time

import uvloop

import duly
from benchmarks.filling import fill, run_sql, tidy
from benchmarks.places import folder, fresh, in_process, server
from benchmarks.suspects import summary

REASON = "timeout_exceeded"
WANTED = 1.5


class Lateness:
    """An app that notes how late ordinary deliveries are, and whose dead letters die again."""

    def __init__(self, url: str, revived: float) -> None:
        self.app = duly.App(url, recovery_rate=revived)
        self.found: list[float] = []
        self.app.handler("quick")(self._quick)
        self.app.handler("bad", retry=duly.no_retry)(self._bad)

    async def _quick(self, delivery: duly.Delivery[object]) -> None:
        self.found.append(delivery.late_by.total_seconds() * 1000)

    async def _bad(self, _delivery: duly.Delivery[object]) -> None:
        raise duly.Fail("again", reason=REASON)

    async def of(self, rate: int, seconds: float) -> list[float]:
        """The lateness of deliveries at a constant rate."""
        self.found = []
        await asyncio.gather(*[each.wait() for each in await produce(self.app, rate, seconds)])
        return self.found


async def produce(app: duly.App, rate: int, seconds: float) -> list[duly.Handle[object]]:
    """Accept ordinary deliveries at a constant rate, each due at once."""
    begun, made = time.perf_counter(), []
    for n in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, begun + n / rate - time.perf_counter()))
        made.append(await app.deliver("quick", {"n": n}))
    return made


DIE = (
    f"update duly.deliveries set state = 'dead', attempt = 1, reason = '{REASON}', error = 'no',"
    " fingerprint = 'f', dead_at = {0}, finished_at = {0}"
)


async def make_dead(app: duly.App, count: int) -> None:
    """Fill the store with dead letters of an hour ago."""
    await fill(app, "bad", count)
    database = app.store.database  # type: ignore[attr-defined]
    ago = ("now() - interval '1 hour'", "accepted_at - 3600000000")
    for sql in ("delete from duly.agenda", DIE):
        postgres, sqlite = (sql.format(each) for each in ago)
        await run_sql(database, (postgres, ()), (sqlite.replace("duly.", "duly_"), ()))
    await tidy(database)


async def settle(app: duly.App) -> None:
    """Remove the policy, and wait until nothing of it is left."""
    if await app.recovery.policies():
        await app.recovery.remove(REASON)
    wanted = duly.DeadLetterFilter(disposition="recovering")
    while await app.dead_letters.count(wanted):  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.5)
    await asyncio.sleep(1)


def memory() -> float:
    """The resident memory of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure(url: str, given: argparse.Namespace) -> None:
    """Measure on one store and print the result."""
    late: dict[str, list[float]] = {"without": [], "applying": [], "retrying": []}
    lateness = Lateness(url, given.revived)
    async with lateness.app as app:
        await make_dead(app, given.dead)
        running = asyncio.create_task(app.run(signals=False))
        await lateness.of(20, 2)
        before = memory()
        for _ in range(given.rounds):
            for name, found in late.items():
                if name == "without":
                    await settle(app)
                else:
                    after = "30d" if name == "applying" else 0.0
                    await app.recovery.set(REASON, tries=100, after=after, then="hold")
                found += await lateness.of(given.rate, given.seconds)
        grown = memory() - before
        app.stop()
        await running
    found = {name: summary(sorted(each)) for name, each in late.items()}
    print(json.dumps(found | {"memory": {"before_mb": round(before), "grown_mb": round(grown)}}))


async def main(given: argparse.Namespace) -> None:
    """Measure on both stores, each in a process of its own."""
    with server() as postgres, folder() as place:
        for kind in ("postgresql", "sqlite"):
            url = await fresh(kind, postgres, place)
            options = [f"--{name}={getattr(given, name)}" for name in OPTIONS]
            found = in_process("recovery", "--database", url, *options, timeout=1800)
            ratio = {
                name: found[name]["p99_ms"] / found["without"]["p99_ms"]
                for name in ("applying", "retrying")
            }
            print(
                f"{kind}: p99 {found['without']['p99_ms']} ms without; {ratio['applying']:.2f} "
                f"times while a policy is applied, {ratio['retrying']:.2f} times while "
                f"{given.revived:g}/s are retried (wanted at most {WANTED}); memory "
                f"{found['memory']['before_mb']} MB and {found['memory']['grown_mb']:+} MB"
            )


OPTIONS = {"dead": 100_000, "rate": 100, "seconds": 10.0, "rounds": 3, "revived": 10.0}

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    for option, default in OPTIONS.items():
        arguments.add_argument(f"--{option}", type=type(default), default=default)
    arguments.add_argument("--database")
    chosen = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.CRITICAL)
    uvloop.install()
    asyncio.run(measure(chosen.database, chosen) if chosen.database else main(chosen))
