"""A server ends after its drain time whatever its handlers do, and whenever it is stopped."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.surfaces.processes import DEADLINE_SECONDS, Home, environment

pytestmark = [pytest.mark.requirement("D13"), pytest.mark.long]
MOST_SECONDS = 12.0
"""Drain time, second cancellation, last settlements and exit, on a busy machine."""
SHOP = """
import asyncio, logging, threading, time, duly
app = duly.App()
log = logging.getLogger("shop")

def enter():
    log.info("in", extra={"event": "Entered"})

@app.handler("swallow")
async def swallow(delivery):
    enter()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@app.handler("thread")
def thread(delivery):
    enter()
    threading.Event().wait()

@app.handler("executor")
async def executor(delivery):
    enter()
    await asyncio.gather(*(asyncio.to_thread(threading.Event().wait) for _ in range(40)))
"""


@pytest.mark.parametrize(
    ("kind", "left"), [("swallow", "held"), ("thread", "held"), ("executor", "released")]
)
async def test_it_ends_whatever_its_handlers_do(home: Home, kind: str, left: str) -> None:
    home.write("shop.py", SHOP)
    id = await home.deliver(kind)
    with home.serving("shop:app", environ={"DULY_DRAIN": "0.2"}) as server:
        server.wait_for("Entered")
        server.signal(signal.SIGTERM)
        asked_at = time.monotonic()
        stopped = server.wait_for("WorkerStopped")
        assert (stopped["released"], stopped["held"]) == ((0, 1) if left == "held" else (1, 0))
        assert server.end() == 0
        assert time.monotonic() - asked_at < MOST_SECONDS
    found = await home.find(id)
    assert (found.state, found.attempt) == ("processing" if left == "held" else "pending", 0)


BLOCKING = """
import logging, time, duly
app = duly.App(drain=0.2)

@app.handler("block")
async def block(delivery):
    logging.getLogger("shop").info("in", extra={"event": "Entered"})
    while True:
        time.sleep(0.1)
"""


async def test_it_ends_though_a_handler_blocks_its_event_loop(
    tmp_path: Path, sqlite_url: str
) -> None:
    home = Home(tmp_path, sqlite_url)
    home.write("shop.py", BLOCKING)
    id = await home.deliver("block")
    with home.running("work", "shop:app") as worker:
        worker.wait_for("Entered")
        worker.signal(signal.SIGTERM)
        assert worker.end() == 1
    assert (await home.find(id)).attempt == 0


SLOW = """
import logging, pathlib
logging.getLogger("shop").info("importing", extra={"event": "Importing"})
pathlib.Path("gate").read_text()
import duly
app = duly.App()
"""


@pytest.mark.parametrize("command", ["serve", "work"])
def test_a_signal_during_the_import_stops_it_in_order(sqlite_home: Home, command: str) -> None:
    sqlite_home.write("slow.py", SLOW)
    os.mkfifo(sqlite_home.folder / "gate")
    with sqlite_home.running(command, "slow:app") as server:
        server.wait_for("Importing")
        server.signal(signal.SIGTERM)
        (sqlite_home.folder / "gate").write_text("go")
        assert server.end() == 0
    assert not (sqlite_home.folder / "duly.db").exists()


@pytest.fixture
def black_hole() -> Iterator[socket.socket]:
    """A database that accepts connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        found.settimeout(DEADLINE_SECONDS)
        yield found


HOST = """
import asyncio, sys, duly
app = duly.App(sys.argv[1], environment={})
asyncio.run(app.run())
print("returned")
"""


@pytest.mark.parametrize("command", ["serve", "work", "run"])
def test_a_signal_while_it_waits_for_its_store_stops_it_in_order(
    tmp_path: Path, black_hole: socket.socket, command: str
) -> None:
    url = f"postgresql://127.0.0.1:{black_hole.getsockname()[1]}/none?sslmode=disable"
    (tmp_path / "shop.py").write_text(SHOP)
    host = [sys.executable, "-c", HOST, url]
    served = [sys.executable, "-m", "duly", command, "shop:app", "--database", url]
    with subprocess.Popen(
        host if command == "run" else served, cwd=tmp_path, env=environment()
    ) as process:
        try:
            taken, _ = black_hole.accept()
            with taken:
                asked_at = time.monotonic()
                process.send_signal(signal.SIGTERM)
                assert process.wait(DEADLINE_SECONDS) == 0
                assert time.monotonic() - asked_at < 4.5, "it waited for its store to time out"
        finally:
            process.kill()


LOADING = """
import sys
print("loading", flush=True)
open("gate").read()
sys.exit("it went on")
"""


@pytest.mark.parametrize("command", ["serve", "work"])
def test_a_signal_before_it_is_loaded_ends_it_without_an_error(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "uvloop.py").write_text(LOADING)  # found before the real one
    os.mkfifo(tmp_path / "gate")
    arguments = [sys.executable, "-m", "duly", command, "shop:app"]
    with subprocess.Popen(
        arguments, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"loading\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_SECONDS) == 0
        finally:
            process.kill()
