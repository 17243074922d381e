"""A service in parts, on several machines as it were: each part in a process of its own."""

import asyncio
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import httpx
import pytest

import duly
from tests.support.postgres import Server
from tests.surfaces.processes import DEADLINE_SECONDS, Home, Running

SHOP = """
import logging, duly
app = duly.App()

@app.handler("note")
async def note(delivery):
    logging.getLogger("shop").info("got it", extra={"event": "Noted"})
"""
QUICK = {"DULY_LEASE": "2", "DULY_POLL": "0.1", "DULY_RECOVERY_INTERVAL": "0.2"}
EACH = 20


@pytest.mark.requirement("S1", "D14")
@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--role", "api"), "role: a SQLite file belongs to one process"),
        (("--processes", "2"), "processes: a SQLite file belongs to one process"),
        (("--role", "cook"), "role: 'cook' from flag will not do; give some of api, worker and"),
    ],
)
def test_what_a_file_does_not_allow_is_refused_before_it_is_made(
    sqlite_home: Home, flags: tuple[str, str], problem: str
) -> None:
    done = sqlite_home.duly("serve", "--port", "0", *flags)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {problem}")
    assert not (sqlite_home.folder / "duly.db").exists()


@pytest.mark.requirement("S1", "D14")
async def test_parts_on_one_database_work_together_and_outlive_its_restart(
    tmp_path: Path, own_postgres: Server
) -> None:
    home = Home(tmp_path, await own_postgres.create_database("apart"))
    home.write("shop.py", SHOP)
    with ExitStack() as running:
        parts = {role: two(home, role, running) for role in ("api", "worker", "planner")}
        await asyncio.to_thread(until_they_serve, parts)
        async with home.app() as app:
            app.expect("note")
            await app.schedule("often", duly.every("1s"), "note")
        await deliver(parts["api"], "before")
        await until_completed(home, "before")
        own_postgres.restart()
        await deliver(parts["api"], "after")
        await until_completed(home, "after")
        async with home.app() as app:
            assert sum(each.alive for each in await app.store.workers.roster()) == 2
        for each in (*parts["api"], *parts["worker"], *parts["planner"]):
            assert each.process.poll() is None, each.log


def two(home: Home, role: str, running: ExitStack) -> list[Running]:
    start = ("serve", "shop:app", "--role", role, "--port", "0")
    return [running.enter_context(home.running(*start, environ=QUICK)) for _ in range(2)]


def until_they_serve(parts: dict[str, list[Running]]) -> None:
    for role, running in parts.items():
        for each in running:
            told = each.wait_for("Serving")
            assert told["roles"] == [role]
            assert ("url" in told) == (role == "api")
            each.url = told.get("url", "")


async def deliver(ports: list[Running], name: str) -> None:
    """Hand over some through either port; each is sent until it is answered, with its key."""
    async with httpx.AsyncClient(timeout=10) as client, asyncio.timeout(DEADLINE_SECONDS):
        for n in range(EACH):
            given = {"target": "note", "key": f"{name}-{n}", "tags": [name]}
            for port in cycle(ports):
                answer = await client.post(f"{port.url}/v1/deliveries", json=given)
                if answer.status_code in (200, 201):
                    break
                assert answer.status_code == 503, answer.text


async def until_completed(home: Home, name: str) -> None:
    """Wait for those, and for one that was planned meanwhile."""
    async with home.app() as app, asyncio.timeout(DEADLINE_SECONDS):
        planned = {"state": "completed", "schedule": "often"}
        before = len(await app.list(limit=1000, **planned))
        while len(await app.list(state="completed", tag=name, limit=1000)) < EACH:
            pass
        while len(await app.list(limit=1000, **planned)) <= before:
            pass
