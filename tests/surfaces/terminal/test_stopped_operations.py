"""Bulk operations stopped by Ctrl-C: the printed number is true, and nothing continues."""

import signal
from datetime import UTC, datetime, timedelta

import pytest

import duly
from tests.surfaces.dead_letters.test_dead_letters import make_dead_letters, states
from tests.surfaces.processes import Home

pytestmark = pytest.mark.requirement("F4", "C10", "S6")
DEAD = 60


def printed_number(log: list[str]) -> int:
    """The printed number of changed deliveries."""
    (stop_line,) = [line for line in log if line.startswith("stopped after ")]
    assert "Traceback" not in "".join(log)
    return int(stop_line.split(";")[0].removeprefix("stopped after "))


async def test_a_stopped_retry_through_a_server_prints_the_true_number(home: Home) -> None:
    ids = await make_dead_letters(home, list(range(DEAD)))
    stops = {"DULY_FAILPOINTS": "retry.after=stop@1"}
    with home.serving(environ=stops) as server:
        retry = ("dead", "retry", "--target", "work", "--rate", "10", "--yes")
        with home.running(*retry, "--server", server.url) as running:
            # The first batch is committed, but not yet reported.
            server.wait_until_stopped()
            running.signal(signal.SIGINT)
            running.line_with("stopping; ")
            server.signal(signal.SIGCONT)
            assert running.end() == 128 + signal.SIGINT
        listed = home.json("dead", "list", "--limit", "200", "--server", server.url)
    left = len(listed["items"])
    assert printed_number(running.log) == DEAD - left > 0
    assert (await states(home, ids)).count("dead") == left


async def test_a_stopped_backfill_through_a_server_prints_the_true_number(
    home: Home,
) -> None:
    async with home.app() as app:
        app.expect("work")
        await app.schedule("tick", duly.every("1s"), "work")
    end = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
    span = ("--from", (end - timedelta(hours=20)).isoformat(), "--to", end.isoformat())
    with home.serving() as server:
        fill = ("schedules", "backfill", "tick", *span, "--yes", "--server", server.url)
        with home.running(*fill) as running:
            look = ("deliveries", "list", "--target", "work", "--server", server.url)
            while len(home.json(*look)["items"]) < 50:
                assert running.process.poll() is None, "".join(running.log)
            running.signal(signal.SIGINT)
            assert running.end() == 128 + signal.SIGINT
    async with home.app() as app:
        found = await app.list(schedule="tick", limit=100_000)
    made = [each for each in found if each.scheduled_for and each.scheduled_for <= end]
    assert printed_number(running.log) == len(made)
