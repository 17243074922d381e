"""Count the bytecodes that one delivery takes on the event loop; print them as one JSON line.

Unlike times, they do not differ from run to run. Only public names are used, so that it also runs
with the package of an earlier commit: `PYTHONPATH=../before/src python benchmarks/bytecodes.py`.
"""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import duly
from duly.testing import VirtualClock, run_until_idle

FEW, MANY = 500, 2500


class Counter:
    """Counts the bytecodes of this thread."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = True
        self.count += event == "opcode"
        return self


async def counted(count: int, handler: str) -> int:
    """The bytecodes for this many deliveries."""
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder:
        url = f"sqlite:///{Path(folder)}/bench.db"
        app = duly.App(url, clock=VirtualClock(), environment={})
        if handler == "delivery":

            @app.handler("noop")
            async def noop(delivery: duly.Delivery[object]) -> None: ...
        else:

            @app.handler("noop")
            async def same(n: int) -> int:
                return n

        async with app:
            await app.deliver_many(("noop", {"n": n}) for n in range(count))
            counter = Counter()
            sys.settrace(counter)
            try:
                await run_until_idle(app)
            finally:
                sys.settrace(None)
    return counter.count


async def main(handler: str) -> dict[str, float]:
    """The bytecodes of one more delivery."""
    few, many = await counted(FEW, handler), await counted(MANY, handler)
    return {"bytecodes": round((many - few) / (MANY - FEW), 1)}


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--handler", choices=["delivery", "arguments"], default="delivery")
    given = arguments.parse_args()
    logging.getLogger("duly").setLevel(logging.ERROR)
    print(json.dumps(asyncio.run(main(given.handler))))
