"""`duly status`, `duly audit`, `duly alerts`, and late work in the health of a server."""

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

import duly
from duly import App
from duly.domain.monitoring.alerts import AlertCause
from duly.domain.time.zones import zone_data_version
from duly.records.alert import AlertKind
from duly.testing import NEW_YEAR, VirtualClock, run_until_idle
from tests.surfaces.processes import Home

LONG_AGO = datetime(2025, 12, 31, tzinfo=UTC)
SHOP = """
import asyncio, logging, pathlib, duly
app = duly.App()

@app.handler("gate")
async def gate(delivery):
    logging.getLogger("shop").info("in", extra={"event": "Entered"})
    await asyncio.to_thread(pathlib.Path("gate").read_text)
"""


async def late_deliveries(home: Home, target: str, count: int) -> None:
    """Make deliveries that are long overdue."""
    async with home.app() as app:
        app.expect(target)
        for hours in range(count):
            await app.deliver(target, hours, at=LONG_AGO + timedelta(hours=hours))


@pytest.mark.requirement("D12")
async def test_late_work_is_shown_until_it_is_done(home: Home) -> None:
    await late_deliveries(home, "log", 3)
    waiting = home.json("status")
    assert waiting["recovering"] == {
        "count": 3, "oldest": "2025-12-31T00:00:00Z", "rate": None, "seconds_left": None,
    }  # fmt: skip
    assert waiting["workers"] == 0
    output = home.ok("status")
    assert "3 late, the oldest since 2025-12-31 00:00:00.000Z; not draining" in output
    with home.serving() as server:
        for _ in range(3):
            server.wait_for("Logged")
        drained = home.json("status")
    assert (drained["recovering"], drained["workers"]) == (None, 1)


class Draining(VirtualClock):
    """A clock that cancels deliveries during a sleep of a second or more."""

    def __init__(self) -> None:
        super().__init__(sleeping_moves_it=True)
        self.leaving: list[str] = []
        self.cancel: Callable[[str], Awaitable[object]]

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        # The store sleeps too, but always for less than a second.
        while seconds >= 1 and self.leaving:
            await self.cancel(self.leaving.pop())


@pytest.mark.requirement("D12")
async def test_the_rate_is_the_decrease_between_two_counts(home: Home) -> None:
    clock = Draining()
    app = App(home.database, clock=clock, environment={})
    app.expect("log")
    clock.cancel = app.cancel
    async with app:
        stored = [(await app.deliver("log", at=LONG_AGO)).id for _ in range(4)]
        clock.leaving = stored[:3]
        found = (await app.stats.status()).recovering
        clock.leaving = stored[3:]
        assert (await app.stats.status()).recovering is None
    assert found is not None
    assert (found.count, found.rate, found.seconds_left) == (1, 3.0, 0.3)


async def test_status_has_the_next_planned_moment_and_the_zone_data(home: Home) -> None:
    async with home.app() as app:
        await app.schedule("far", duly.at("2040-01-01T00:00Z"), "log")
    found = home.json("status")
    assert found["next_planned_at"] == "2040-01-01T00:00:00Z"
    assert (found["planner_lag"], found["recovering"]) == (0.0, None)
    assert found["zones"] == zone_data_version()
    kind = "sqlite" if home.database.startswith("sqlite") else "postgresql"
    assert found["store"] == kind


async def test_status_has_the_lag_of_the_planner(home: Home) -> None:
    app = App(home.database, clock=VirtualClock(), environment={})
    app.expect("log")
    async with app:
        await app.schedule("hourly", duly.every("1h"), "log")
    missed = NEW_YEAR + timedelta(hours=1)
    found = home.json("status")
    assert datetime.fromisoformat(found["next_planned_at"]) == missed
    assert timedelta() < timedelta(seconds=found["planner_lag"]) <= datetime.now(UTC) - missed


@pytest.mark.requirement("D12")
async def test_health_has_late_work_until_it_is_done(home: Home) -> None:
    home.write("shop.py", SHOP)
    os.mkfifo(home.folder / "gate")
    await late_deliveries(home, "gate", 3)
    with home.serving("shop:app", "--concurrency", "1") as server:
        server.wait_for("Entered")
        server.wait_for("RecoveryBegan")
        draining = server.health_when(lambda health: health["recovering"]["count"] == 2)
        assert draining["recovering"]["oldest"] == "2025-12-31T01:00:00Z"
        for _ in range(2):
            (home.folder / "gate").write_text("go")
            server.wait_for("Entered")
        (home.folder / "gate").write_text("go")
        server.wait_for("RecoveryEnded")
        assert server.get("/health?verbose=true")[2]["recovering"] is None


async def test_the_audit_has_who_changed_what(home: Home) -> None:
    async with home.app() as app:
        await app.schedule("far", duly.at("2040-01-01T00:00Z"), "log")
    home.ok("schedules", "pause", "far", "--reason", "holidays")
    paused, created = home.json("audit")["items"]
    assert (paused["actor"], paused["action"]) == ("cli", "schedule.paused")
    assert (paused["subject"], paused["detail"]) == ("far", {"reason": "holidays"})
    assert (created["actor"], created["action"]) == ("python", "schedule.created")
    assert len(home.json("audit", "--limit", "1")["items"]) == 1
    assert '{"reason":"holidays"}' in home.ok("audit")
    assert home.duly("audit", "--limit", "0").returncode == 2


@pytest.mark.requirement("S4")
async def test_alerts_are_listed_as_text_and_as_json(home: Home) -> None:
    async with home.app() as app:
        assert home.json("alerts")["items"] == []
        cause = AlertCause(AlertKind.CIRCUIT_OPEN, "https://x.example.com", "it fails")
        assert await app.store.alerts.raise_one(cause)
        (alert,) = await app.alerts.raised()
        output = home.ok("alerts", "list")
        assert output == home.ok("alerts")
        assert "circuit_open" in output
        assert "https://x.example.com" in output
        await app.store.alerts.clear(alert)
    assert home.json("alerts")["items"] == []
    (over,) = home.json("alerts", "--all")["items"]
    assert (over["kind"], over["cleared_at"] is None) == ("circuit_open", False)


async def test_status_counts_pending_deliveries_with_queues_of_streams_and_dead_letters(
    home: Home,
) -> None:
    app = App(home.database, clock=VirtualClock(), environment={})
    app.expect("log")

    @app.handler("fails", retry=duly.no_retry)
    async def fails(_delivery: duly.Delivery[object]) -> None:
        raise ValueError("no")

    async with app:
        for _ in range(3):
            await app.deliver("fails", stream="blocked")  # one dies, two wait behind it
        await app.deliver("fails")
        await run_until_idle(app)
        await app.deliver("log")
        await app.deliver("log", after=3600)
        for name in ("goes on", "paused"):
            for _ in range(4):
                await app.deliver("log", stream=name, after=3600)
        await app.streams.pause("paused")
        other = app.within("another")
        other.expect("log")
        await other.deliver("log", stream="goes on")
        everything = await app.list(limit=100)
        found = await app.stats.status()
    pending = [each for each in everything if each.state == "pending"]
    assert (found.pending, found.dead, found.processing) == (len(pending), 2, 0) == (12, 2, 0)
    output = home.ok("status")
    assert [line.split() for line in output.splitlines()[2:5]] == [
        *(["pending", "12"], ["processing", "0"], ["dead", "2"]),
    ]
