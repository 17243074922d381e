"""duly.Client with pooled connections, compared with a new connection for each request.

python -m benchmarks.client [--count 1000] [--callers 64] [--rounds 3]

"http.client" is what commands used before: the standard library in threads, a connection each.
"""

import argparse
import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from http.client import HTTPConnection
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

import duly
from benchmarks.api.servers import running
from benchmarks.places import folder
from duly.client import pool
from duly.system import Threads

SERVE = ("duly", "serve", "benchmarks.api.served:app", "--port", "0", "--database")
PAYLOAD = {"type": "invoice.paid", "data": {"invoice": 4711, "amount": "99.00", "currency": "EUR"}}
AFTER = 36_000
Deliver = Callable[[], Awaitable[object]]


def post(url: str) -> None:
    """One delivery over its own connection."""
    body = json.dumps({"target": "noop", "payload": PAYLOAD, "after": AFTER}).encode()
    headers = {"content-type": "application/json", "idempotency-key": str(uuid.uuid4())}
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request("POST", "/v1/deliveries", body, headers)
        with connection.getresponse() as answer:
            assert answer.status == 201, answer.read()
            answer.read()
    finally:
        connection.close()


class Cost(NamedTuple):
    """The cost of calls."""

    rate: float
    """Calls a second."""
    cpu: float
    """Milliseconds of the caller's CPU for each call."""


async def cost(deliver: Deliver, count: int, callers: int) -> Cost:
    """The cost of this many calls with this many callers."""
    left = iter(range(count))

    async def call() -> None:
        for _ in left:
            await deliver()

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(call() for _ in range(callers)))
    cpu = time.process_time() - cpu
    return Cost(count / (time.perf_counter() - began), cpu / count * 1000)


async def one_round(url: str, count: int, callers: int) -> dict[str, Cost]:
    """The cost of each method."""
    threads = Threads()
    async with duly.Client(url, connections=callers) as client:
        deliver = lambda: client.deliver("noop", PAYLOAD, after=AFTER)  # noqa: E731
        pooled = await cost(deliver, count, callers)
        reused, pool.IDLE_SECONDS = pool.IDLE_SECONDS, 0.0
        single = await cost(deliver, count, callers)
        pool.IDLE_SECONDS = reused
    thread = lambda: asyncio.wrap_future(threads.run(lambda: post(url)))  # noqa: E731
    return {"pooled": pooled, "new": single, "http.client": await cost(thread, count, callers)}


async def main(count: int, callers: int, rounds: int) -> None:
    """Print the results of both cases; the methods take turns."""
    with folder() as place, running(*SERVE, f"sqlite:///{place}/bench.db") as served:
        await one_round(served.url, 100, 4)
        for many in (1, callers):
            found = [await one_round(served.url, count, many) for _ in range(rounds)]
            print(f"callers: {many}")
            for method in found[0]:
                rate = [each["pooled"].rate / each[method].rate for each in found]
                cpu = [each[method].cpu / each["pooled"].cpu for each in found]
                print(
                    f"  {method}: {median(each[method].rate for each in found):,.0f}/s and "
                    f"{median(each[method].cpu for each in found):.2f} ms of CPU each; pooled is "
                    f"{median(rate):.1f} times as fast, with {1 / median(cpu):.0%} of the CPU"
                )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=1000)
    arguments.add_argument("--callers", type=int, default=64)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    asyncio.run(main(given.count, given.callers, given.rounds))
