"""Several processes under a small parent: dead ones are replaced, and orphans end."""

import os
import signal
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.surfaces.processes import Home, Running, children

pytestmark = pytest.mark.long

SHOP = """
import asyncio, logging, os, time, duly
app = duly.App()
log = logging.getLogger("shop")

def entered():
    log.info("in", extra={"event": "Entered", "facts": {"process": os.getpid()}})

@app.handler("hang")
async def hang(delivery):
    entered()
    await asyncio.Event().wait()

@app.handler("block")
async def block(delivery):
    entered()
    if not os.path.exists("blocked"):
        open("blocked", "w").close()
        time.sleep(3600)
"""
QUICK = {"DULY_LEASE": "1", "DULY_RECOVERY_INTERVAL": "0.1", "DULY_POLL": "0.1"}


@pytest.fixture
def shop(tmp_path: Path, postgres_url: str) -> Home:
    home = Home(tmp_path, postgres_url)
    home.write("shop.py", SHOP)
    return home


def until_two_work(server: Running) -> None:
    for _ in range(2):
        server.wait_for("WorkerStarted")


def metrics_of_both(server: Running) -> dict[str, Any]:
    """Scrape until the metrics of both are included: either process may answer."""
    for _ in range(1000):
        with urlopen(f"{server.url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        # Prometheus refuses a scrape in which a family occurs twice.
        helps = [line for line in text.splitlines() if line.startswith("# TYPE")]
        assert len(helps) == len(set(helps))
        found = {each.name: each for each in text_string_to_metric_families(text)}
        if {each.labels["process"] for each in found["duly_claimed"].samples} == {"1", "2"}:
            return found
    raise AssertionError("no scrape included both")


@pytest.mark.requirement("S1", "S3", "D13")
def test_processes_share_a_port_and_a_killed_one_is_replaced(shop: Home) -> None:
    with shop.serving("shop:app", "--processes", "2", environ=QUICK) as server:
        until_two_work(server)
        first, _ = children(server.process.pid)
        os.kill(first, signal.SIGKILL)
        assert server.wait_for("ProcessEnded")["process"] == first
        server.wait_for("WorkerStarted")
        full = server.health_when(lambda full: full["workers"] == 2)
        assert full["status"] == "ok"
        found = metrics_of_both(server)
        for name in ("duly_run_seconds", "duly_running", "duly_build_info"):
            assert {each.labels["process"] for each in found[name].samples} == {"1", "2"}
        # The metrics of the namespace are included once.
        assert [each.labels for each in found["duly_workers"].samples] == [{}]
        server.signal(signal.SIGTERM)
        assert server.end() == 0
    assert sum('"WorkerStopped"' in line for line in server.log) == 2


@pytest.mark.requirement("S2")
async def test_the_rate_limit_of_a_key_is_shared_by_all_processes(shop: Home) -> None:
    async with shop.app() as app:
        token = (await app.keys.create("greedy")).token
    rate, requests, passed = 40, 0, 0
    environ = QUICK | {"DULY_KEY_RATE": str(rate)}
    with shop.serving("shop:app", "--processes", "2", environ=environ) as server:
        until_two_work(server)
        begun_at = time.monotonic()
        # Each request uses a new connection, to either process.
        while (seconds := time.monotonic() - begun_at) < 1.5:
            requests += 1
            passed += server.get("/v1/workers", key=token)[0] == 200
    # A burst of two seconds is allowed; with one limit for each process it would be twice as much.
    assert min(rate, requests) <= passed < rate * (2 + seconds + 0.5)


@pytest.mark.requirement("D13", "D5")
async def test_orphans_end_and_release_their_claims(shop: Home) -> None:
    id = await shop.deliver("hang")
    # The lease is long: if a slow machine lost it, both would run the delivery.
    environ = QUICK | {"DULY_DRAIN": "0.1", "DULY_LEASE": "30"}
    with shop.running("work", "shop:app", "--processes", "2", environ=environ) as server:
        server.wait_for("Entered")
        until_two_work(server)
        server.signal(signal.SIGKILL)
        released = [server.wait_for("WorkerStopped")["released"] for _ in range(2)]
        # The second may have claimed what the first released, before it too saw that it is alone.
        assert sorted(released) in ([0, 1], [1, 1])
        server.end()
    found = await shop.find(id)
    assert (found.state, found.attempt) == ("pending", 0)


@pytest.mark.requirement("D13")
async def test_a_second_signal_ends_all_processes_at_once_and_loses_nothing(shop: Home) -> None:
    id = await shop.deliver("hang")
    with shop.running("work", "shop:app", "--processes", "2", environ=QUICK) as server:
        server.wait_for("Entered")
        server.signal(signal.SIGTERM)
        server.wait_for("Draining")
        server.signal(signal.SIGTERM)
        assert server.end() == 128 + signal.SIGTERM
    assert (await shop.find(id)).state == "processing"


@pytest.mark.requirement("D14")
async def test_a_process_with_a_blocked_event_loop_is_killed_and_its_work_continues(
    shop: Home,
) -> None:
    id = await shop.deliver("block")
    environ = QUICK | {"NOTIFY_SOCKET": "@nobody/listens", "WATCHDOG_USEC": "2000000"}
    with shop.running("work", "shop:app", "--processes", "2", environ=environ) as server:
        hung = server.wait_for("Entered")["process"]
        ended = server.wait_for("ProcessEnded")
        assert (ended["process"], ended["code"]) == (hung, 128 + signal.SIGKILL)
        server.wait_for("Reclaimed")
        server.wait_for("Entered")
        server.signal(signal.SIGTERM)
        assert server.end() == 0
    assert (await shop.find(id)).state == "completed"


@pytest.mark.requirement("D14")
def test_an_error_in_every_process_ends_the_start(shop: Home) -> None:
    done = shop.process("work", "nowhere:app", "--processes", "2")
    assert done.returncode == 2
    assert done.stderr.count("error: app: there is no module 'nowhere'") == 1
