"""A duly process like `duly work`, with default settings; it starts after a line on stdin.

With --produce it also accepts deliveries: on SQLite another process would only be polled.
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
    arguments.add_argument("--produce", help="the load to produce, as JSON")
    given = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.ERROR)
    uvloop.install()
    counted = asyncio.run(main(given.database, given.concurrency, given.produce))
    print(json.dumps(counted), flush=True)
