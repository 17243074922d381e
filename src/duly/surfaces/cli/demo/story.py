"""The demo from start to end: accept, kill, wait, start again, and count."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path

from duly.app import App
from duly.client.client import Client
from duly.domain.deliveries.states import FINISHED
from duly.domain.endpoints.signatures import new_secret
from duly.ports import Clock
from duly.records.delivery import Delivery
from duly.records.state import State
from duly.surfaces.cli.demo.birthdays import SERVICE, has_birthdays, register_people
from duly.surfaces.cli.demo.board import Board
from duly.surfaces.cli.demo.counting import DemoResult, Kind, Outage, counted
from duly.surfaces.cli.demo.sample_work import (
    OFFLINE,
    SCHEDULE,
    Plan,
    accept_offline,
    accept_online,
)
from duly.surfaces.cli.demo.server_process import ServerProcess, serving
from duly.surfaces.cli.receiving.received import Inbox, Received
from duly.surfaces.cli.receiving.receiver import open_port
from duly.surfaces.cli.terminal.flags import Backend
from duly.system import SystemChance

HOST = "127.0.0.1"
ANSWER_SECONDS = 0.1
"""How long the receiver takes for each request, so that some are being sent at the kill."""
LOOK_SECONDS = 0.05
CATCH_UP_SECONDS = 30.0
"""How long the second server may take for everything."""
KEY_BYTES = 24
PAGE = 200


class Story:
    """One run of the demo, in a folder of its own."""

    def __init__(self, plan: Plan, folder: Path, clock: Clock, board: Board) -> None:
        self._plan = plan
        self._folder = folder
        self._clock = clock
        self._board = board
        self._secret = new_secret(SystemChance().bytes(KEY_BYTES))
        self._database = f"sqlite:///{folder}/duly.db"
        self._url = ""

    async def play(self) -> DemoResult:
        """Play it, and count at the end; nothing that it started runs afterwards."""
        inbox = Inbox(self._secret, [], 200)
        async with open_port(inbox, self._board.arrivals.add, HOST, 0, _slowly) as url:
            self._url = f"{url}/hook"
            self._board.began(self._url)
            killed_at = await self._work_until_killed()
            completed = await self._stay_away()
            outage = Outage(killed_at, self._clock.now(), completed)
            due = await self._catch_up()
        return counted(self._board.accepted, self._board.arrivals.requests, outage, due)

    async def _work_until_killed(self) -> datetime:
        async with self._serving() as server, Client(server.url) as client:
            self._board.serves(server.pid)
            await self._accept(client)
            enough = self._plan.orders // 3
            await self._until(lambda: self._board.arrivals.count >= enough, CATCH_UP_SECONDS)
            await server.kill()
        self._board.killed(server.pid)
        return self._clock.now()

    async def _accept(self, client: Client) -> None:
        if has_birthdays():
            await register_people(client, self._folder, self._settings())
        await accept_online(self._plan, client, self._url)
        accepted = self._board.accepted
        self._board.took({kind: accepted[kind] for kind in accepted if kind is not Kind.OFFLINE})

    async def _stay_away(self) -> frozenset[str]:
        """Let work pile up; returns what was completed before the kill."""
        async with App(
            self._database, environment={}, namespace="default", egress_allow=HOST
        ) as app:
            completed = frozenset(each.id for each in await _all(app, State.COMPLETED))
            await accept_offline(app, self._url)
            self._board.accepted_offline(OFFLINE)
            for _ in range(self._plan.away):
                await self._clock.sleep(1.0)
                self._board.waits(await self._due(app))
        return completed

    async def _due(self, app: App) -> int:
        """What is due in the store, and the occurrences that are not planned yet."""
        now = self._clock.now()
        unfinished = [each for each in await _all(app) if each.state not in FINISHED]
        due = sum(each.due_at <= now for each in unfinished)
        report = await app.schedules.get(SCHEDULE)
        if report.next_at is None or report.next_at > now:
            return due
        missed = int((now - report.next_at).total_seconds())
        return due + min(missed, self._plan.reports - report.runs)

    async def _catch_up(self) -> dict[str, datetime]:
        """Start again, and wait until everything has arrived; returns when each was due."""
        async with self._serving() as server, Client(server.url) as client:
            self._board.serves(server.pid)
            await self._until(self._board.has_all, CATCH_UP_SECONDS)
            await self._until_settled(client)
            self._board.caught_up()
            return {each.id: each.due_at for each in await _all(client)}

    async def _until_settled(self, client: Client) -> None:
        """Wait until nothing is due or being sent, so that nothing can arrive later."""
        ends = self._clock.monotonic() + CATCH_UP_SECONDS
        while self._clock.monotonic() < ends:
            now = (await client.stats.overview()).now
            if not now.due + now.processing:
                return
            await self._clock.sleep(LOOK_SECONDS)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait for the condition, but no longer than some seconds."""
        ends = self._clock.monotonic() + seconds
        while not condition() and self._clock.monotonic() < ends:
            await self._clock.sleep(LOOK_SECONDS)

    def _serving(self) -> AbstractAsyncContextManager[ServerProcess]:
        app = f"{SERVICE}:app" if has_birthdays() else None
        return serving(self._folder, app, self._settings())

    def _settings(self) -> dict[str, str]:
        return {
            "DULY_DATABASE": self._database,
            "DULY_EGRESS_ALLOW": HOST,
            "DULY_WEBHOOK_SECRET": self._secret,
            "BIRTHDAY_WEBHOOK_URL": self._url,
        }


def _slowly(_received: Received) -> float:
    return ANSWER_SECONDS


async def _all(server: Backend, state: State | None = None) -> list[Delivery]:
    """All deliveries, or those in a state."""
    found: list[Delivery] = []
    before: str | None = None
    while True:
        page = await server.page(state=state, before=before, limit=PAGE, payloads=False)
        found += page.items
        before = page.next
        if before is None:
            return found
