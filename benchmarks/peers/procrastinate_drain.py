"""Measure how fast one procrastinate worker process drains a full queue of no-op jobs."""

import asyncio
import time

import uvloop
from common import parser, report
from procrastinate import App, PsycopgConnector

CHUNK = 5_000


async def drain(
    url: str, count: int, concurrency: int, workers: int, delete_jobs: str, tuned: bool
) -> tuple[int, float]:
    """Defer, run the worker until nothing is left, and return jobs run and seconds taken."""
    handled = 0
    size = workers * (min(concurrency, 10) + 1)
    # Every query of procrastinate is one statement: autocommit saves a BEGIN and a COMMIT.
    pool = {"min_size": size, "max_size": size, "kwargs": {"autocommit": True}} if tuned else {}
    app = App(connector=PsycopgConnector(conninfo=url, **pool))

    @app.task(name="noop")
    async def noop() -> None:
        nonlocal handled
        handled += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, count, CHUNK):
            await noop.batch_defer_async(*({} for _ in range(min(CHUNK, count - start))))
        await app.connector.execute_query_async("ANALYZE")

        started = time.perf_counter()
        await asyncio.gather(
            *(
                app.run_worker_async(
                    concurrency=concurrency,
                    wait=False,
                    listen_notify=False,
                    delete_jobs=delete_jobs,
                    install_signal_handlers=False,
                )
                for _ in range(workers)
            )
        )
        seconds = time.perf_counter() - started
    return handled, seconds


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--concurrency", type=int, default=5, help="jobs run at a time")
    arguments.add_argument("--workers", type=int, default=4, help="workers in the one process")
    arguments.add_argument("--tuned", type=int, choices=(0, 1), default=1, help="autocommit")
    arguments.add_argument(
        "--delete-jobs", choices=("never", "successful", "always"), default="never"
    )
    given = arguments.parse_args()
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    handled, seconds = asyncio.run(
        drain(
            given.database,
            given.count,
            given.concurrency,
            given.workers,
            given.delete_jobs,
            bool(given.tuned),
        )
    )
    report(
        "procrastinate",
        "postgresql",
        given.count,
        handled,
        seconds,
        concurrency=given.concurrency,
        workers=given.workers,
        delete_jobs=given.delete_jobs,
        autocommit=bool(given.tuned),
        loop="uvloop",
        driver="psycopg",
    )


if __name__ == "__main__":
    main()
