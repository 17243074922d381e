"""How a server stops: running work ends or is handed back, and nothing is lost."""

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
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_work_may_end_while_health_says_stopping(shop: Home, number: int) -> None:
    with shop.serving("shop:app") as server:
        running = shop.ok("deliver", "gate")
        server.wait_for("Entered")
        server.signal(number)
        assert server.wait_for("Draining")["running"] == 1
        assert server.get("/health") == (503, "application/json", {"status": "stopping"})
        later = shop.ok("deliver", "gate")
        open_gate(shop.folder)
        assert server.end() == 0
    assert shop.json("deliveries", "show", running)["state"] == "completed"
    assert shop.json("deliveries", "show", later)["state"] == "pending"
    assert shop.json("deliveries", "list", "--state", "processing")["items"] == []


@pytest.mark.requirement("D13")
@pytest.mark.parametrize("command", ["serve", "work"])
def test_what_does_not_end_in_time_is_handed_back_untouched(shop: Home, command: str) -> None:
    arguments = ("--port", "0") if command == "serve" else ()
    with shop.running(command, "shop:app", *arguments, environ={"DULY_DRAIN": "0.2"}) as server:
        server.wait_for("WorkerStarted")
        id = shop.ok("deliver", "hang")
        server.wait_for("Entered")
        server.signal(signal.SIGTERM)
        assert server.wait_for("WorkerStopped")["released"] == 1
        assert server.end() == 0
    found = shop.json("deliveries", "show", id)
    assert (found["state"], found["attempt"]) == ("pending", 0)
    assert [each["ended_how"] for each in shop.json("workers")["items"]] == ["stopped"]


@pytest.mark.requirement("D13")
def test_a_second_signal_ends_it_at_once_and_the_work_is_not_lost(shop: Home) -> None:
    short = {"DULY_LEASE": "0.5", "DULY_RECOVERY_INTERVAL": "0.1"}
    with shop.serving("shop:app", environ=short) as server:
        id = shop.ok("deliver", "gate")
        server.wait_for("Entered")
        server.signal(signal.SIGTERM)
        server.wait_for("Draining")
        server.signal(signal.SIGTERM)
        assert server.end() == 128 + signal.SIGTERM
    with shop.serving("shop:app", environ=short) as server:
        server.wait_for("Entered")
        open_gate(shop.folder)
        server.signal(signal.SIGTERM)
        assert server.end() == 0
    assert shop.json("deliveries", "show", id)["state"] == "completed"


def test_an_idle_server_stops_without_a_word_of_trouble(home: Home) -> None:
    with home.serving() as server:
        server.signal(signal.SIGTERM)
        assert server.end() == 0
    assert all('"level":"info"' in line for line in server.log), server.log
