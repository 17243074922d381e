"""POST /v1/deliveries with many callers, its p99 with a working engine, and items in bulk.

python -m benchmarks.api [--store postgresql] [--seconds 5] [--rounds 3]
python -m benchmarks.api --part lists [--store postgresql] [--rows 5000000]
python -m benchmarks.api --part overload [--store postgresql] [--seconds 5]
"""

import argparse
import asyncio
from statistics import median

import uvloop

from benchmarks.api.callers import flood, post_request, trickle
from benchmarks.api.lists import lists
from benchmarks.api.overload import overload
from benchmarks.api.servers import running
from benchmarks.latency import cpu_seconds
from benchmarks.places import folder, fresh, server
from benchmarks.windows import typical_p99

CALLERS, RATE = 64, 500
BULK, BULK_CALLERS = 10_000, 2
PAYLOAD = {"type": "invoice.paid", "data": {"invoice": 4711, "amount": "99.00", "currency": "EUR"}}
NOW = post_request("/v1/deliveries", {"target": "noop", "payload": PAYLOAD})
LATER = post_request("/v1/deliveries", {"target": "noop", "payload": PAYLOAD, "after": 36000})
MANY = post_request(
    "/v1/deliveries/bulk", [{"target": "noop", "payload": PAYLOAD, "after": 36000}] * BULK
)


async def measured(kind: str, seconds: float, rounds: int) -> None:
    """Print the results of one store."""
    single, echoed, bulk, waits, costs = [], [], [], [], []
    with server() as postgres, folder() as place:
        for _ in range(rounds):
            with running("benchmarks.api.echo") as echo:
                echoed.append(await flood(echo.url, LATER, CALLERS, seconds))
            database = await fresh(kind, postgres, place)
            serve = ("duly", "serve", "benchmarks.api.served:app", "--port", "0")
            with running(*serve, "--database", database) as served:
                url = served.url
                await flood(url, NOW, 4, 1)
                waits += await trickle(url, NOW, RATE, 2 * seconds)
                before = cpu_seconds(served.number)
                single.append(await flood(url, LATER, CALLERS, seconds))
                costs.append((cpu_seconds(served.number) - before) / (single[-1] * seconds))
                bulk.append(BULK * await flood(url, MANY, BULK_CALLERS, seconds))
    limit = median(echoed)
    print(
        f"{kind}: {CALLERS} callers {median(single):,.0f}/s (wanted: 3,000), an echo "
        f"{limit:,.0f}/s: {median(single) / limit:.0%}, "
        f"{median(costs) * 1e6:.0f} µs of the server's CPU each; "
        f"p99 at {RATE}/s with a working engine "
        f"{typical_p99(waits) * 1000:.1f} ms (wanted: 20); bulk {median(bulk):,.0f}/s "
        "(wanted: 30,000)"
    )


async def main(stores: list[str], seconds: float, rounds: int) -> None:
    """Measure each store."""
    for kind in stores:
        await measured(kind, seconds, rounds)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=["postgresql", "sqlite"])
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument(
        "--part", choices=["accepting", "lists", "overload"], default="accepting"
    )
    arguments.add_argument("--rows", type=int, default=5_000_000)
    given = arguments.parse_args()
    stores = ["postgresql", "sqlite"] if given.store is None else [given.store]
    uvloop.install()
    if given.part == "lists":
        for store in stores:
            asyncio.run(lists(store, given.rows))
    elif given.part == "overload":
        for store in stores:
            asyncio.run(overload(store, given.seconds))
    else:
        asyncio.run(main(stores, given.seconds, given.rounds))
