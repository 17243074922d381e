"""A duly process as `duly work` runs it, its settings as they come; it starts when told to.

With --produce it asks for deliveries as well: on SQLite nobody else could without being polled for.
"""

import argparse
import asyncio
import json
import logging
import sys

import uvloop

import duly
from benchmarks.webhooks.load import SETTINGS, produce
from duly.system import collect_rarely


async def main(database: str, concurrency: int, produced: str | None) -> dict[str, int]:
    """Work until SIGTERM; returns what was counted."""
    app = duly.App(database, concurrency=concurrency, drain=0.5, **SETTINGS)
    async with app:
        await app.webhooks.prepare()
        collect_rarely()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        producing = asyncio.create_task(_produce(app, produced))
        await app.run()
        await producing
    return dict(app.telemetry.counts)


async def _produce(app: duly.App, produced: str | None) -> None:
    if produced is not None:
        print(await produce(app, **json.loads(produced)), flush=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database", required=True)
    arguments.add_argument("--concurrency", type=int, default=100)
    arguments.add_argument("--produce", help="what to ask for, as JSON")
    given = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.ERROR)
    uvloop.install()
    counted = asyncio.run(main(given.database, given.concurrency, given.produce))
    print(json.dumps(counted), flush=True)
