"""Processes that deliver, or receive, in transactions; they report each stage and wait."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack

import duly
from tests.crash.worker import report
from tests.services.drivers import ASYNC, PLAIN, deliver_with

REDELIVERIES = 25


async def by_every_driver(app: duly.App, database: str) -> None:
    """Deliver once with each driver, all transactions open; then commit them all."""
    async with AsyncExitStack() as transactions:
        for name, driver in (ASYNC | PLAIN).items():
            connection, execute = await transactions.enter_async_context(driver(database))
            await execute("insert into effects values ('caller', 1)")
            await deliver_with(app, name, connection, "touch", name, key=name)
        report("delivered")
        await next_line()
    report("committed")
    await next_line()


async def by_itself(app: duly.App) -> None:
    """Deliver in duly's own transaction; a failpoint kills the process meanwhile."""
    async with app.transaction() as tx:
        await tx.execute("insert into effects values ('caller', 1)")
        await app.deliver("touch", "own", key="own", connection=tx)


async def receive_repeatedly(app: duly.App) -> None:
    """Receive one message repeatedly, several times concurrently."""
    report("ready")
    await next_line()
    numbers = iter(range(REDELIVERIES))

    async def consume() -> None:
        for number in numbers:
            async with app.receive("m", "billing") as message:
                if message.is_new:
                    await message.execute("insert into effects values ('m', 1)")
                    await message.keep({"pid": os.getpid(), "number": number})
                report("received", message.is_new, message.result["pid"], message.result["number"])

    await asyncio.gather(*(consume() for _ in range(5)))


async def next_line() -> None:
    """Wait for a line on stdin, which may never come."""
    await asyncio.to_thread(sys.stdin.readline)


async def main(mode: str, database: str) -> None:
    """Run the mode."""
    app = duly.App(database)
    app.expect("touch")
    async with app:
        if mode == "drivers":
            await by_every_driver(app, database)
        elif mode == "own":
            await by_itself(app)
        else:
            await receive_repeatedly(app)
    report("done")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
