"""kill -9 while results, progress and requests to cancel are kept."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from duly import App
from tests.surfaces.processes import DEADLINE_SECONDS, Home, Running

pytestmark = pytest.mark.long

APP = """
import asyncio
import os
import duly

app = duly.App()

@app.handler("result")
async def result(delivery: duly.Delivery) -> int:
    print("result", flush=True)
    return os.getpid()

@app.handler("hang")
async def hang(delivery: duly.Delivery) -> None:
    await delivery.progress(0.5, "half")
    print("hang", flush=True)
    await asyncio.Event().wait()
"""
SHORT = {"DULY_LEASE": "1", "DULY_RECOVERY_INTERVAL": "0.1"}


@pytest.fixture
def home(tmp_path: Path, database_url: str) -> Home:
    found = Home(tmp_path, database_url)
    found.write("shop.py", APP)
    return found


def worker(home: Home, **environ: str) -> Running:
    return Running(home, ["work", "shop:app"], SHORT | environ)


async def nothing_is_left(app: App) -> None:
    """Nothing is known of running deliveries when there are none."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await app.store.running.look():
            pass


@pytest.mark.requirement("P3")
@pytest.mark.parametrize(
    ("place", "runs"), [("handler.exit", 2), ("settle.before", 2), ("settle.after", 1)]
)
async def test_a_result_is_kept_once_wherever_the_worker_dies(
    home: Home, place: str, runs: int
) -> None:
    id = await home.deliver("result")
    with worker(home, DULY_FAILPOINTS=f"{place}=kill@1") as crashed:
        assert crashed.end() == -signal.SIGKILL
    with worker(home) as survivor:
        async with home.app() as app:
            found = await app.deliveries.detail(id, wait=DEADLINE_SECONDS)
        kept_by = {1: crashed, 2: survivor}[runs]
        assert found.result == kept_by.process.pid
        assert [each.result for each in found.attempts if each.outcome == "completed"] == [
            kept_by.process.pid
        ]


@pytest.mark.requirement("P5")
async def test_a_request_to_cancel_outlives_the_worker(home: Home) -> None:
    id = await home.deliver("hang")
    async with home.app() as app:
        with worker(home) as crashed:
            assert crashed.printed() == "hang\n"
            # It cannot obey: it is stopped when it is asked, and dies before it goes on.
            crashed.signal(signal.SIGSTOP)
            asked = await app.cancel(id)
            assert asked.cancel_asked_at is not None
            crashed.signal(signal.SIGKILL)
            crashed.end()
        with worker(home) as survivor:
            found = await app.deliveries.detail(id, wait=DEADLINE_SECONDS)
            assert found.state == "cancelled"
            await nothing_is_left(app)
            survivor.signal(signal.SIGTERM)
            survivor.end()
            assert survivor.printed() is None, "it is not attempted again"


@pytest.mark.requirement("P4")
async def test_progress_goes_with_the_attempt_that_reported_it(home: Home) -> None:
    id = await home.deliver("hang")
    async with home.app() as app:
        with worker(home) as crashed:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while (await app.get(id)).progress != 0.5:
                    pass
            crashed.signal(signal.SIGKILL)
            crashed.end()
        home.write(
            "other.py",
            "import duly\n\napp = duly.App()\napp.handler('other')(lambda delivery: None)\n",
        )
        with Running(home, ["work", "other:app"], SHORT) as survivor:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while (await app.get(id)).state != "pending":
                    pass
            assert (await app.get(id)).progress is None
            await nothing_is_left(app)
            survivor.signal(signal.SIGTERM)
            survivor.end()
