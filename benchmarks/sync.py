"""`app.sync.deliver` from threads, compared with `app.deliver` from as many coroutines.

python -m benchmarks.sync [--count 5000] [--callers 64] [--rounds 5]

Both use one App and the same event loop of asyncio, on fresh stores, in turn.
"""

import argparse
import asyncio
import threading
import time
from collections.abc import Iterator
from statistics import median

import duly
from benchmarks.places import folder, fresh, server

AFTER = 36_000
WANTED = 0.6


def app_on(url: str) -> duly.App:
    """An App whose deliveries are not due."""
    app = duly.App(url, environment={})
    app.expect("noop")
    return app


def from_threads(url: str, count: int, callers: int) -> float:
    """Deliveries a second of `app.sync.deliver`."""
    app, left = app_on(url), numbers(count)

    def call() -> None:
        for number in left:
            app.sync.deliver("noop", {"n": number}, after=AFTER)

    with app.sync:
        app.sync.deliver("noop", after=AFTER)
        threads = [threading.Thread(target=call) for _ in range(callers)]
        began = time.perf_counter()
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return count / (time.perf_counter() - began)


async def from_coroutines(url: str, count: int, callers: int) -> float:
    """Deliveries a second of `app.deliver`."""
    app, left = app_on(url), numbers(count)

    async def call() -> None:
        for number in left:
            await app.deliver("noop", {"n": number}, after=AFTER)

    async with app:
        await app.deliver("noop", after=AFTER)
        began = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(callers)))
        return count / (time.perf_counter() - began)


def numbers(count: int) -> Iterator[int]:
    """The numbers below `count`; of a range, so that threads can share it."""
    return iter(range(count))


def main(count: int, callers: int, rounds: int) -> None:
    """Measure both on each store, in turn."""
    with server() as postgres, folder() as place:
        for kind in ("postgresql", "sqlite"):
            threads, coroutines = [], []
            for _ in range(rounds):
                url = asyncio.run(fresh(kind, postgres, place))
                coroutines.append(asyncio.run(from_coroutines(url, count, callers)))
                url = asyncio.run(fresh(kind, postgres, place))
                threads.append(from_threads(url, count, callers))
            shares = [one / other for one, other in zip(threads, coroutines, strict=True)]
            print(
                f"{kind}: {callers} threads {median(threads):,.0f}/s, "
                f"{callers} coroutines {median(coroutines):,.0f}/s: "
                f"{median(shares):.0%} (wanted: {WANTED:.0%}; "
                f"{min(shares):.0%} to {max(shares):.0%})"
            )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=5_000)
    arguments.add_argument("--callers", type=int, default=64)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    main(given.count, given.callers, given.rounds)
