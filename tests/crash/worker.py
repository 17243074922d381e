"""A worker process for the crash tests: it reports its work on stdout, one line each."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from typing import Any

import duly
from tests.crash.limit_receiver import PLACE, add_limited

TRY_LOCK = """
select pg_try_advisory_xact_lock(hashtext($1)) as is_first, exists (
    select 1 from pg_locks l join pg_stat_activity a using (pid)
    left join duly.workers w on a.application_name = 'duly worker ' || w.id
    where l.locktype = 'advisory' and l.granted and l.pid <> pg_backend_pid()
      and l.objid::bigint = hashtext($1)::bigint & 4294967295 and w.ended_at is null
) as is_live
"""
"""Lock a stream, and say whether a worker that was not declared dead has it."""


def report(*words: object) -> None:
    """Write one line in one call, so that lines of several processes are not mixed."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def build(database: str) -> duly.App:
    """An app whose handlers write effects, hang, fail, or kill their process."""
    app = duly.App(database)
    placeholder = "$1, $2" if database.startswith("postgres") else "?, ?"

    @app.handler("effect", retry=duly.exponential(base=0.01, cap=0.05, attempts=50))
    async def effect(delivery: duly.Delivery[dict[str, Any]]) -> None:
        await delivery.transaction.execute(
            f"insert into effects (delivery, worker) values ({placeholder})",
            delivery.id,
            os.getpid(),
        )
        report("effect", delivery.id)

    marks = ("$1", "$2", "$3") if database.startswith("postgres") else ("?", "?", "?")

    @app.handler("in-stream", retry=duly.exponential(base=0.01, cap=0.05, attempts=50))
    async def in_stream(delivery: duly.Delivery[dict[str, Any]]) -> None:
        """One effect in the order of its stream; every tenth fails first, after it was written."""
        stream, n = delivery.payload["stream"], delivery.payload["n"]
        await delivery.transaction.execute(
            f"insert into stream_effects (stream, n, worker) values ({', '.join(marks)})",
            stream,
            n,
            os.getpid(),
        )
        if database.startswith("postgres"):
            [(is_first, is_live)] = await delivery.transaction.fetch(TRY_LOCK, str(stream))
            if not is_first:
                # Until PostgreSQL notices that a dead worker is gone, it keeps that lock.
                state = "two-at-once" if is_live else "after-a-death"
                report(state, stream, n)
        report("in-stream", stream, n)
        if n % 10 == 3 and delivery.attempt == 1:
            raise ValueError("not yet")

    @app.handler("in-run", retry=duly.exponential(base=0.01, cap=0.05, attempts=50))
    async def in_run(delivery: duly.Delivery[dict[str, Any]]) -> None:
        """As above without a transaction, so that whole runs of a stream are claimed."""
        stream, n = delivery.payload["stream"], delivery.payload["n"]
        report("in-run", stream, n)
        if n % 10 == 3 and delivery.attempt == 1:
            raise ValueError("not yet")

    @app.handler("behind", retry=duly.no_retry)
    async def behind(delivery: duly.Delivery[dict[str, Any]]) -> None:
        """The first of a stream is a dead letter."""
        report("behind", delivery.payload["n"])
        if delivery.payload["n"] == 0:
            raise duly.ValidationFailure("never")

    @app.handler("touch", retry=duly.exponential(base=0.01, cap=0.05, attempts=50))
    async def touch(delivery: duly.Delivery[Any]) -> None:
        report("touch", delivery.id, delivery.attempt)

    @app.handler("steps", retry=duly.exponential(base=0.01, cap=0.05, attempts=50))
    async def steps(delivery: duly.Delivery[Any]) -> None:
        """Three reported steps; the last writes the result of the first."""
        first = await delivery.do("one", lambda: report("one", delivery.id) or os.getpid())
        report("recorded", delivery.id)
        await delivery.do("two", lambda: report("two", delivery.id))
        await delivery.transaction.execute(
            f"insert into effects (delivery, worker) values ({placeholder})", delivery.id, first
        )
        await delivery.do("three", lambda: report("three", delivery.id))

    @app.handler("steps-in-thread", retry=duly.exponential(base=0.01, cap=0.05, attempts=50))
    def steps_in_thread(delivery: duly.Delivery[Any]) -> None:
        for name in ("one", "two", "three"):
            delivery.do(name, report, name, delivery.id)
            report("recorded", delivery.id)

    @app.handler("hang")
    async def hang(delivery: duly.Delivery[Any]) -> None:
        report("hang", delivery.id)
        await asyncio.Event().wait()

    @app.handler("hang-first")
    async def hang_first(delivery: duly.Delivery[Any]) -> None:
        report("hang-first", delivery.id, os.getpid())
        if os.environ.get("HANGS"):
            await asyncio.Event().wait()

    @app.handler("block")
    async def block(delivery: duly.Delivery[Any]) -> None:
        report("block", delivery.id)
        time.sleep(3)  # noqa: ASYNC251 - this blocks the loop on purpose
        report("unblocked", delivery.id)

    @app.handler("unique", retry=duly.exponential(base=0.01, cap=0.05, attempts=3))
    async def unique(delivery: duly.Delivery[Any]) -> None:
        """Writes a row with a unique key; the process may stop before it commits."""
        await delivery.transaction.execute(
            f"insert into unique_effects (delivery, worker) values ({placeholder})",
            delivery.id,
            os.getpid(),
        )
        report("unique", delivery.id)
        if os.environ.get("STOPS"):
            os.kill(os.getpid(), signal.SIGSTOP)

    @app.handler("coalesced", retry=duly.exponential(base=0.01, cap=0.05, attempts=50))
    async def coalesced(delivery: duly.Delivery[dict[str, Any]]) -> None:
        """One effect for a unique key; every fifth fails first, after it was written."""
        key, n = delivery.payload["key"], delivery.payload["n"]
        await delivery.transaction.execute(
            f"insert into coalesced_effects (key, n) values ({placeholder})", key, n
        )
        report("coalesced", key, n)
        if n % 5 == 3 and delivery.attempt == 1:
            raise ValueError("not yet")

    @app.handler("poison", retry=duly.exponential(base=0.01, cap=0.05, attempts=4))
    async def poison(delivery: duly.Delivery[Any]) -> None:
        report("poison", delivery.id)
        os._exit(9)

    if PLACE in os.environ:
        add_limited(app)
    return app


class ReportedEvents(logging.Handler):
    """Reports the events that tests wait for."""

    def emit(self, record: logging.LogRecord) -> None:
        """Report the event's name."""
        name = getattr(record, "event", "")
        if name in (
            "SettleRefused",
            "LeaseWasLost",
            "Reclaimed",
            "StoreUnreachable",
            "WorkerStarted",
        ):
            report(name)


async def main(database: str) -> None:
    """Work until stopped."""
    app = build(database)
    async with app:
        await app.run()
    report("stopped")


if __name__ == "__main__":
    logging.getLogger("duly").addHandler(ReportedEvents())
    logging.getLogger("duly").setLevel(logging.INFO)
    asyncio.run(main(sys.argv[1]))
