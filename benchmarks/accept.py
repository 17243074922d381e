"""How fast `deliver_many` accepts deliveries, compared with COPY and a bare executemany.

python -m benchmarks.accept [--count 100000]
"""

import argparse
import asyncio
import time
from datetime import UTC, datetime
from statistics import median
from typing import Any

import apsw
import uvloop

import duly
from benchmarks.places import folder, fresh, server
from duly.stores.postgres.database import Postgres

LEDGER = [
    "id", "target", "priority", "namespace", "due_at", "accepted_at", "payload",
]  # fmt: skip
AGENDA = ["lane", "delivery", "target", "priority", "due_at"]


async def ours(url: str, count: int) -> float:
    """Deliveries a second through `deliver_many`."""
    app = duly.App(url)
    app.expect("noop")
    async with app:
        await app.deliver_many([("noop", None)])
        started = time.perf_counter()
        await app.deliver_many(("noop", {"n": n}) for n in range(count))
        return count / (time.perf_counter() - started)


async def bare(url: str, count: int) -> float:
    """The same rows into the same tables, with plain SQL."""
    app = duly.App(url)
    app.expect("noop")
    async with app:
        await app.deliver_many([("noop", None)])
        now, ids = datetime.now(UTC), [app.chance.delivery_id() for _ in range(count)]
        rows = [(id, 1, 5, "default", now, now, b'{"n":%d}' % n) for n, id in enumerate(ids)]
        lanes = [(id, id, 1, 5, now) for id in ids]
        database: Any = app.store.database  # type: ignore[attr-defined]
        started = time.perf_counter()
        if isinstance(database, Postgres):
            async with database.shared() as connection, connection.transaction():
                copy = connection.copy_records_to_table
                await copy("deliveries", schema_name="duly", records=rows, columns=LEDGER)
                await copy("agenda", schema_name="duly", records=lanes, columns=AGENDA)
        else:
            await database.write(lambda connection: _executemany(connection, rows))
        return count / (time.perf_counter() - started)


def _executemany(connection: apsw.Connection, rows: list[tuple[Any, ...]]) -> None:
    # A trigger adds each of them to the agenda.
    connection.executemany(
        f"insert into duly_deliveries ({', '.join(LEDGER)}) values (?, ?, ?, ?, ?, ?, ?)",
        [(*row[:4], 1, 1, row[6]) for row in rows],
    )


async def main(count: int) -> None:
    """Measure each store, five times in turn."""
    with server() as postgres, folder() as place:
        for kind, bare_name in (("postgresql", "COPY"), ("sqlite", "executemany")):
            our_rates, bare_rates = [], []
            for _ in range(5):
                our_rates.append(await ours(await fresh(kind, postgres, place), count))
                bare_rates.append(await bare(await fresh(kind, postgres, place), count))
            ours_median, bare_median = median(our_rates), median(bare_rates)
            print(
                f"{kind}: deliver_many {ours_median:,.0f}/s, {bare_name} {bare_median:,.0f}/s: "
                f"{ours_median / bare_median:.0%} (wanted: 50%)"
            )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=100_000)
    uvloop.install()
    asyncio.run(main(arguments.parse_args().count))
