"""Measure how fast one DBOS process drains a full queue of no-op workflows."""

import itertools
import threading
import time

import sqlalchemy
from common import parser, report, store_of
from dbos import DBOS, DBOSClient, DBOSConfig

QUEUE = "peers"
CHUNK = 1_000
VERSION = "1"


def prefer_wal(url: str) -> None:
    """Set write-ahead logging for an SQLite file; DBOS uses the default journal."""
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text("PRAGMA journal_mode=WAL"))
    engine.dispose()


def enqueue(url: str, workflow: str, count: int) -> None:
    """Enqueue the workflows, one chunk in each transaction."""
    client = DBOSClient(system_database_url=url)
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    for start in range(0, count, CHUNK):
        with engine.begin() as connection:
            for _ in range(min(CHUNK, count - start)):
                client.enqueue_in_transaction(
                    connection, {"queue_name": QUEUE, "workflow_name": workflow}
                )
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("ANALYZE"))
    engine.dispose()
    client.destroy()


def drain(url: str, count: int, threads: int, polling: float, kind: str) -> tuple[int, float]:
    """Enqueue, release the queue, wait for every workflow; return workflows run and seconds."""
    ordinals = itertools.count(1)
    all_run = threading.Event()

    def step() -> None:
        if next(ordinals) == count:
            all_run.set()

    def noop() -> None:
        step()

    async def noop_async() -> None:
        step()

    config: DBOSConfig = {
        "name": "peers",
        "system_database_url": url,
        "application_version": VERSION,
        "max_executor_threads": threads,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    DBOS.workflow(name="noop")(noop if kind == "sync" else noop_async)
    DBOS.launch()
    # A worker concurrency of zero stops the queue until everything is enqueued.
    queue = DBOS.register_queue(QUEUE, worker_concurrency=0, polling_interval_sec=polling)
    enqueue(url, "noop", count)
    # The queue's thread starts within a second of its registration.
    time.sleep(2)

    started = time.perf_counter()
    queue.set_worker_concurrency(None)
    all_run.wait()
    while DBOS.list_workflows(
        status=["ENQUEUED", "PENDING"], limit=1, load_input=False, load_output=False
    ):
        time.sleep(0.01)
    seconds = time.perf_counter() - started

    DBOS.destroy()
    return next(ordinals) - 1, seconds


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--threads", type=int, help="default: 4, or 1 on SQLite")
    arguments.add_argument("--polling", type=float, default=0.1, help="seconds between polls")
    arguments.add_argument("--wal", type=int, choices=(0, 1), default=1, help="SQLite only")
    arguments.add_argument("--kind", choices=("sync", "async"), default="sync")
    given = arguments.parse_args()
    store = store_of(given.database)
    threads = given.threads or (1 if store == "sqlite" else 4)
    if store == "sqlite" and given.wal:
        prefer_wal(given.database)
    handled, seconds = drain(given.database, given.count, threads, given.polling, given.kind)
    report(
        "dbos",
        store,
        given.count,
        handled,
        seconds,
        threads=threads,
        polling_interval_sec=given.polling,
        workflow=given.kind,
        worker_concurrency=None,
        **({"journal_mode": "wal" if given.wal else "delete"} if store == "sqlite" else {}),
    )


if __name__ == "__main__":
    main()
