"""Two processes of each role under load, with a kill, a restart of the database and a stop."""

import asyncio
import signal
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import httpx
import pytest

import duly
from tests.support.postgres import Server
from tests.surfaces.processes import DEADLINE_SECONDS, Home, Running

pytestmark = pytest.mark.long

SHOP = """
import duly
app = duly.App()

@app.handler("note", retry=duly.exponential(base=0.01, cap=0.05, attempts=50))
async def note(delivery):
    await delivery.transaction.execute("insert into effects values ($1)", delivery.id)
"""
QUICK = {"DULY_LEASE": "2", "DULY_POLL": "0.1", "DULY_RECOVERY_INTERVAL": "0.2"}
CALLERS, EACH = 8, 25
ALL = CALLERS * EACH
SCHEDULES = ("first", "second", "third")
SECOND = timedelta(seconds=1)


class Callers:
    """Clients that send each delivery to both servers at once, with one key, until one accepts."""

    def __init__(self, servers: list[Running]) -> None:
        self.servers = servers
        self.accepted: dict[str, str] = {}
        self._allowed = 0.0
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Send them all."""
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            httpx.AsyncClient(timeout=10) as client,
            asyncio.TaskGroup() as group,
        ):
            for caller in range(CALLERS):
                group.create_task(self._call(client, caller))

    async def reach(self, share: float) -> None:
        """Send until this share is accepted, and a fifth more, so that the load continues."""
        async with asyncio.timeout(DEADLINE_SECONDS), self._changed:
            self._allowed = (share + 0.2) * ALL
            self._changed.notify_all()
            await self._changed.wait_for(lambda: len(self.accepted) >= share * ALL)

    async def _call(self, client: httpx.AsyncClient, caller: int) -> None:
        for n in range(EACH):
            async with self._changed:
                await self._changed.wait_for(lambda: len(self.accepted) < self._allowed)
            self.accepted[f"{caller}-{n}"] = await self._accepted(client, f"{caller}-{n}")
            async with self._changed:
                self._changed.notify_all()

    async def _accepted(self, client: httpx.AsyncClient, key: str) -> str:
        while True:
            requests = [self._post(client, each.url, key) for each in self.servers]
            if ids := {id for id in await asyncio.gather(*requests) if id is not None}:
                (id,) = ids
                return id

    async def _post(self, client: httpx.AsyncClient, url: str, key: str) -> str | None:
        headers, given = {"idempotency-key": key}, {"target": "note", "payload": key}
        try:
            answer = await client.post(f"{url}/v1/deliveries", json=given, headers=headers)
        except httpx.TransportError:
            return None
        assert answer.status_code in (201, 409, 503), answer.text
        return str(answer.json()["id"]) if answer.status_code == 201 else None


@pytest.mark.requirement("S1", "S2", "D1", "D4", "D6", "D14", "C1")
async def test_with_two_processes_of_each_role_nothing_is_lost_or_made_twice(
    tmp_path: Path, own_postgres: Server
) -> None:
    home = Home(tmp_path, await own_postgres.create_database("apart"))
    await home.execute("create table effects (delivery uuid not null)")
    home.write("shop.py", SHOP)
    with ExitStack() as running:
        servers, workers, planners = [
            [start(home, role, running) for _ in range(2)] for role in ("api", "worker", "planner")
        ]
        for each in (*servers, *workers, *planners):
            await asyncio.to_thread(until_it_serves, each)
        await declare(home)
        callers = Callers(servers)
        load = asyncio.create_task(callers.run())
        await callers.reach(0.2)
        servers[0].signal(signal.SIGKILL)
        servers[0] = start(home, "api", running)
        await asyncio.to_thread(until_it_serves, servers[0])
        await callers.reach(0.4)
        await asyncio.to_thread(own_postgres.restart, "immediate")
        restarted_at = datetime.now(UTC)
        await callers.reach(0.7)
        for each in (*servers, *workers, *planners):
            assert each.process.poll() is None, each.log
        servers[1].signal(signal.SIGTERM)
        assert await asyncio.to_thread(servers[1].end) == 0
        await callers.reach(1.0)
        await load
        await until_completed(home, restarted_at)
        for each in (*workers, *planners):
            each.signal(signal.SIGTERM)
            assert await asyncio.to_thread(each.end) == 0
    await assert_each_once(home, callers.accepted)
    await assert_no_occurrence_is_missing_or_double(home)


def start(home: Home, role: str, running: ExitStack) -> Running:
    command = ("serve", "shop:app", "--role", role, "--port", "0")
    return running.enter_context(home.running(*command, environ=QUICK))


def until_it_serves(process: Running) -> None:
    logged = process.wait_for("Serving")
    assert ("url" in logged) == (logged["roles"] == ["api"])
    process.url = logged.get("url", "")


async def declare(home: Home) -> None:
    async with home.app() as app:
        app.expect("note")
        for name in SCHEDULES:
            await app.schedule(name, duly.every("1s"), "note", catch_up="all")


async def until_completed(home: Home, moment: datetime) -> None:
    """Wait for all accepted deliveries, and for an occurrence of each schedule after the moment."""
    async with home.app() as app, asyncio.timeout(DEADLINE_SECONDS):
        while True:
            done = await app.list(state="completed", limit=1000)
            late = {each.schedule for each in done if (each.scheduled_for or moment) > moment}
            if sum(each.schedule is None for each in done) == ALL and late == set(SCHEDULES):
                return


async def assert_each_once(home: Home, accepted: dict[str, str]) -> None:
    """Only accepted and scheduled deliveries exist, and each had its effect once."""
    async with home.app() as app:
        stored = list(await app.list(limit=1000))
    asked_for = [each.id for each in stored if each.schedule is None]
    assert Counter(asked_for) == Counter(accepted.values())
    assert len(accepted) == ALL
    connection = await asyncpg.connect(home.database, timeout=DEADLINE_SECONDS)
    effects = await connection.fetch("select delivery::text from effects")
    await connection.close()
    completed = [each.id for each in stored if each.state == "completed"]
    assert Counter(row["delivery"] for row in effects) == Counter(completed)


async def assert_no_occurrence_is_missing_or_double(home: Home) -> None:
    async with home.app() as app:
        for name in SCHEDULES:
            found = await app.list(schedule=name, limit=1000)
            moments = sorted(each.scheduled_for for each in found if each.scheduled_for)
            assert moments == [moments[0] + n * SECOND for n in range(len(found))]
