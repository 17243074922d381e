"""A process that sends due greetings repeatedly until its stdin ends."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime

from duly.testing import VirtualClock, run_until_idle
from duly_birthday.service import BirthdayApp


async def work(database: str, moment: str, concurrency: str) -> None:
    """Report the start, and send greetings."""
    clock = VirtualClock(datetime.fromisoformat(moment))
    environment = {"DULY_CONCURRENCY": concurrency}
    async with BirthdayApp(database, clock=clock, environment=environment) as app:
        print("greeting", flush=True)
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        while not ended.done():
            await run_until_idle(app)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
