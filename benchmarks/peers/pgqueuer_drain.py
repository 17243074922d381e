"""Measure how fast one pgqueuer worker drains a full queue of no-op jobs."""

import asyncio
import time
from datetime import timedelta

import asyncpg
import uvloop
from common import parser, report
from pgqueuer import PgQueuer
from pgqueuer.domain.settings import db_settings
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

CHUNK = 10_000
# How soon an empty queue is polled again: the default of 30 seconds would be measured too.
TAIL = timedelta(milliseconds=5)


async def drain(url: str, count: int, batch_size: int, connections: int) -> tuple[int, float]:
    """Enqueue, run one worker until nothing is left, and return jobs run and seconds taken."""
    handled = 0
    async with asyncpg.create_pool(url, min_size=connections, max_size=connections) as pool:
        worker = PgQueuer.from_asyncpg_pool(pool)
        queries = worker.qm.queries

        @worker.entrypoint("noop")
        async def noop(_job: Job) -> None:
            nonlocal handled
            handled += 1

        await queries.install()
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            await queries.enqueue(["noop"] * size, [b""] * size, [0] * size)
        await queries.driver.execute("ANALYZE")

        started = time.perf_counter()
        await worker.qm.run(
            batch_size=batch_size, mode=QueueExecutionMode.drain, dequeue_timeout=TAIL
        )
        seconds = time.perf_counter() - started

        left = sum(state.count for state in await queries.queue_size())
        if left:
            raise SystemExit(f"pgqueuer left {left} jobs")
    return handled, seconds


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--batch-size", type=int, default=500, help="jobs per dequeue")
    arguments.add_argument("--connections", type=int, default=3, help="pool size, at least 2")
    given = arguments.parse_args()
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    handled, seconds = asyncio.run(
        drain(given.database, given.count, given.batch_size, given.connections)
    )
    report(
        "pgqueuer",
        "postgresql",
        given.count,
        handled,
        seconds,
        batch_size=given.batch_size,
        connections=given.connections,
        durability=db_settings().durability.value,
        max_concurrent_tasks=None,
        loop="uvloop",
        driver="asyncpg",
    )


if __name__ == "__main__":
    main()
