"""`duly top` without a terminal: one screen of text, or JSON."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.surfaces.processes import Home
from tests.surfaces.top.pseudo_terminal import PseudoTerminal


@pytest.mark.requirement("S6")
async def test_it_shows_rates_due_deliveries_and_workers(home: Home) -> None:
    async with home.app() as app:
        await app.deliver("log", after=3600)
        await app.deliver("log", at=datetime.now(UTC) - timedelta(minutes=2))
        await app.store.workers.register("here:1", 60.0, 7, ["log"])
    found = home.json("top")
    # Less than two in sixty seconds if the minute of their acceptance has just ended.
    assert 0 < found["accepted_per_second"] <= round(2 / 60, 2)
    assert (found["completed_per_second"], found["failed_per_second"]) == (0, 0)
    assert (found["due"], found["retries"], found["counted_up_to"]) == (1, 0, 10_000)
    assert datetime.fromisoformat(found["oldest_due_at"]) < datetime.now(UTC)
    assert [(each["name"], each["concurrency"]) for each in found["workers"]] == [("here:1", 7)]


@pytest.mark.requirement("S6")
async def test_without_a_terminal_it_prints_one_screen(home: Home) -> None:
    async with home.app() as app:
        await app.store.workers.register("here:1", 60.0, 7, ["log"])
    shown = home.ok("top")
    assert "due        nothing" in shown
    assert "here:1  0/7   log" in shown


@pytest.mark.requirement("S6")
def test_a_terminal_that_cannot_draw_gets_one_screen(home: Home) -> None:
    with PseudoTerminal(home, term="dumb") as terminal:
        assert terminal.end() == 0
        assert b"due        nothing" in terminal.output
        assert b"\x1b" not in terminal.output
