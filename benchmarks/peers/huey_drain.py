"""Measure how fast one huey consumer drains a full SQLite queue of no-op tasks."""

import itertools
import threading
import time
from collections.abc import Callable

from common import parser, report
from huey import SqliteHuey
from huey.consumer import Consumer

PREFIX = "sqlite:///"


def open_queue(path: str, noop: Callable[[], None], **options: object) -> tuple[SqliteHuey, object]:
    """A huey with the file and its no-op task; results are off, as they are not read."""
    huey = SqliteHuey("peers", filename=path, results=False, **options)
    return huey, huey.task(name="noop")(noop)


def drain(path: str, count: int, workers: int, fsync: bool) -> tuple[int, float, str]:
    """Enqueue, run the consumer to the last task; return tasks run, seconds and durability."""
    ordinals = itertools.count(1)
    finished = threading.Event()

    def noop() -> None:
        if next(ordinals) == count:
            finished.set()

    filling, task = open_queue(path, noop, fsync=False)
    task.map(() for _ in range(count))
    filling.storage.close()

    huey, _ = open_queue(path, noop, fsync=fsync)
    journal = huey.storage.sql("pragma journal_mode", results=True)[0][0]
    synchronous = huey.storage.sql("pragma synchronous", results=True)[0][0]
    consumer = Consumer(huey, workers=workers, worker_type="thread", periodic=False)

    started = time.perf_counter()
    consumer.start()
    finished.wait()
    seconds = time.perf_counter() - started

    consumer.stop(graceful=True)
    if huey.storage.queue_size():
        raise SystemExit(f"huey left {huey.storage.queue_size()} tasks")
    return next(ordinals) - 1, seconds, f"journal_mode={journal} synchronous={synchronous}"


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--workers", type=int, default=1, help="worker threads")
    arguments.add_argument("--fsync", type=int, choices=(0, 1), default=1)
    given = arguments.parse_args()
    if not given.database.startswith(PREFIX):
        arguments.error(f"huey is measured on SQLite: give --database {PREFIX}file")
    path = given.database.removeprefix(PREFIX)
    handled, seconds, durability = drain(path, given.count, given.workers, bool(given.fsync))
    report(
        "huey",
        "sqlite",
        given.count,
        handled,
        seconds,
        workers=given.workers,
        worker_type="thread",
        durability=durability,
        delivery="at most once: a task is deleted before it runs",
    )


if __name__ == "__main__":
    main()
