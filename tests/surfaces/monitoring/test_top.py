"""`duly top`: one screen without a terminal, and at a terminal until q or Ctrl-C."""

import os
import pty
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.forks import start
from tests.surfaces.processes import DEADLINE_SECONDS, Home, environment


@pytest.mark.requirement("S6")
async def test_it_shows_rates_due_deliveries_and_workers(home: Home) -> None:
    async with home.app() as app:
        await app.deliver("log", after=3600)
        await app.deliver("log", at=datetime.now(UTC) - timedelta(minutes=2))
        await app.store.workers.register("here:1", 60.0, 7, ["log"])
    found = home.json("top")
    assert found["accepted_per_second"] == round(2 / 60, 2)
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
@pytest.mark.parametrize("leave", ["q", "ctrl-c"])
async def test_at_a_terminal_it_runs_until_q_or_ctrl_c(home: Home, leave: str) -> None:
    await home.know("log")
    ours, its = pty.openpty()
    env = environment({"DULY_DATABASE": home.database, "TERM": "xterm"})
    process = start(
        "duly", "top", stdin=its, stdout=its, stderr=subprocess.DEVNULL, cwd=home.folder, env=env
    )
    try:
        seen, deadline = b"", time.monotonic() + DEADLINE_SECONDS
        while b"press q to quit" not in seen:
            assert time.monotonic() < deadline, seen
            seen += os.read(ours, 65536)
        if leave == "q":
            os.write(ours, b"xq")
        else:
            process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_SECONDS) == 0
    finally:
        process.kill()
        os.close(its)
        os.close(ours)
    assert b"accepted" in seen
