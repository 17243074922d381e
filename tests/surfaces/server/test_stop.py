"""How a server stops: running deliveries end or are released, and nothing is lost."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.surfaces.processes import Home

SHOP = """
import asyncio, logging, pathlib, duly
app = duly.App()
log = logging.getLogger("shop")

@app.handler("gate")
async def gate(delivery):
    log.info("in", extra={"event": "Entered"})
    await asyncio.to_thread(pathlib.Path("gate").read_text)

@app.handler("hang")
async def hang(delivery):
    log.info("in", extra={"event": "Entered"})
    await asyncio.Event().wait()
"""


@pytest.fixture
def shop(home: Home) -> Home:
    home.write("shop.py", SHOP)
    os.mkfifo(home.folder / "gate")
    return home


def open_gate(folder: Path) -> None:
    (folder / "gate").write_text("go")


@pytest.mark.requirement("D13")
async def test_running_deliveries_end_while_health_is_stopping(shop: Home) -> None:
    running = await shop.deliver("gate")
    with shop.serving("shop:app") as server:
        server.wait_for("Entered")
        server.signal(signal.SIGTERM)
        assert server.wait_for("Draining")["running"] == 1
        assert server.get("/health") == (503, "application/json", {"status": "stopping"})
        later = await shop.deliver("gate")
        open_gate(shop.folder)
        assert server.end() == 0
    assert (await shop.find(running)).state == "completed"
    assert (await shop.find(later)).state == "pending"


@pytest.mark.requirement("D13")
async def test_a_delivery_that_does_not_end_in_time_is_released_without_an_attempt(
    shop: Home,
) -> None:
    id = await shop.deliver("hang")
    with shop.serving("shop:app", environ={"DULY_DRAIN": "0.2"}) as server:
        server.wait_for("Entered")
        server.signal(signal.SIGTERM)
        assert server.wait_for("WorkerStopped")["released"] == 1
        assert server.end() == 0
    found = await shop.find(id)
    assert (found.state, found.attempt) == ("pending", 0)
    async with shop.app() as app:
        assert [each.ended_how for each in await app.store.workers.all()] == ["stopped"]


@pytest.mark.requirement("D13")
async def test_a_second_signal_ends_it_at_once_and_loses_nothing(shop: Home) -> None:
    id = await shop.deliver("gate")
    short = {"DULY_LEASE": "0.5", "DULY_RECOVERY_INTERVAL": "0.1"}
    with shop.running("work", "shop:app", environ=short) as worker:
        worker.wait_for("Entered")
        worker.signal(signal.SIGTERM)
        worker.wait_for("Draining")
        worker.signal(signal.SIGTERM)
        assert worker.end() == 128 + signal.SIGTERM
    with shop.running("work", "shop:app", environ=short) as worker:
        worker.wait_for("Entered")
        open_gate(shop.folder)
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0
    assert (await shop.find(id)).state == "completed"


@pytest.mark.requirement("D13")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_stops_without_warnings(sqlite_home: Home, number: int) -> None:
    with sqlite_home.serving() as server:
        server.signal(number)
        assert server.end() == 0
    assert [json.loads(line)["level"] for line in server.log] == ["info"] * 3
    assert [json.loads(line)["event"] for line in server.log][-1] == "WorkerStopped"
