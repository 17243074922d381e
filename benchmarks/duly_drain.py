"""Drain no-op deliveries with duly, all features on, and print the result as one JSON line."""

import argparse
import asyncio
import json
import logging
import resource
import time
from collections.abc import Iterator

import uvloop

import duly
from benchmarks.places import commits
from duly.services.deliveries.intake import Item
from duly.system import hand_over_quickly


def items(count: int, streams: int) -> Iterator[Item]:
    """Deliveries without a stream, or in this many streams."""
    if not streams:
        return (("noop", {"n": n}) for n in range(count))
    return (
        {"target": "noop", "payload": {"n": n}, "stream": f"s{n % streams}"} for n in range(count)
    )


async def main(
    database: str, count: int, concurrency: int, filled: bool, streams: int, handler: str
) -> dict[str, object]:
    """Accept the deliveries, unless the store is filled, then time only their draining."""
    app = duly.App(database, concurrency=concurrency)

    if handler == "delivery":

        @app.handler("noop")
        async def noop(delivery: duly.Delivery[object]) -> None:
            pass
    else:

        @app.handler("noop")
        async def same(n: int) -> int:
            return n

    async with app:
        if not filled:
            await app.deliver_many(items(count, streams))
        idle_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        commits_before = await commits(app)
        cpu, started = time.process_time(), time.perf_counter()
        running = asyncio.create_task(app.run())
        while app.telemetry.counts["completed"] < count:  # noqa: ASYNC110 - polling is enough
            await asyncio.sleep(0.002)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        made = await commits(app) - commits_before
        app.stop()
        await running
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "peer": "duly",
        "version": duly.__version__,
        "count": count,
        "seconds": round(seconds, 4),
        "per_second": round(count / seconds, 1),
        "settings": {"concurrency": concurrency},
        "client_microseconds": round(cpu / count * 1e6, 1),
        "commits_per_delivery": round(made / count, 4),
        "grew_megabytes": round((peak - idle_kilobytes) / 1024, 1),
    }


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database", required=True)
    arguments.add_argument("--count", type=int, required=True)
    arguments.add_argument("--concurrency", type=int, default=2000)
    arguments.add_argument("--streams", type=int, default=0)
    arguments.add_argument(
        "--handler",
        choices=["delivery", "arguments"],
        default="delivery",
        help="a no-op that takes the delivery, or one with an argument and a result",
    )
    arguments.add_argument(
        "--filled", action="store_true", help="the deliveries are already stored"
    )
    given = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.ERROR)
    uvloop.install()
    hand_over_quickly()  # as `duly work` does
    print(json.dumps(asyncio.run(main(**vars(given)))))
