"""A worker like `duly work` with a handler that does nothing; it starts after a line on stdin."""

import argparse
import asyncio
import json
import logging
import sys

import uvloop

import duly
from duly.system import collect_rarely


async def main(database: str) -> dict[str, int]:
    """Work until SIGTERM; returns what was counted."""
    app = duly.App(database, drain=0.5)

    @app.handler("noop")
    async def noop(delivery: duly.Delivery[object]) -> None:
        pass

    async with app:
        collect_rarely()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await app.run()
    return dict(app.telemetry.counts)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--database", required=True)
    logging.getLogger("duly").setLevel(logging.ERROR)
    uvloop.install()
    print(json.dumps(asyncio.run(main(arguments.parse_args().database))), flush=True)
