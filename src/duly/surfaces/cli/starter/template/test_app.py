"""A test in virtual time: nothing waits. Run it with `pytest`."""

import asyncio
from pathlib import Path

import duly
from duly.testing import VirtualClock, run_until_idle

from app import greet


def test_a_greeting_is_delivered_when_it_is_due(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = duly.App(f"sqlite:///{tmp_path}/test.db", clock=clock)
    tested = app.handler(greet)  # the same function, with a database of its own

    async def deliver_and_check() -> None:
        async with app:
            handle = await tested.using(after=60).deliver("Ada")
            assert await run_until_idle(app) == 0  # nothing is due yet
            clock.advance(60)
            assert await run_until_idle(app) == 1  # attempt
            assert await handle.result(timeout=0) == "Hello, Ada!"

    asyncio.run(deliver_and_check())
