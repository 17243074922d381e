"""How often a worker looks for requests to cancel."""

from types import SimpleNamespace
from typing import Any

import pytest

from duly.engine.execution.running import IDLE_TICKS, RunningMonitor

pytestmark = pytest.mark.requirement("P5")


class Looked:
    """A store that counts how often it was asked, and which has no requests."""

    def __init__(self) -> None:
        self.times = 0
        self.reported: list[Any] = []

    async def look(self) -> list[Any]:
        self.times += 1
        return []

    async def report(self, reports: list[Any]) -> None:
        self.reported += reports


def monitor(running: int, **reports: Any) -> tuple[RunningMonitor, Looked]:
    looked = Looked()
    executor: Any = SimpleNamespace(store=SimpleNamespace(running=looked), reports=reports)
    runner: Any = SimpleNamespace(running=running)
    return RunningMonitor(executor, runner), looked


async def ticks(found: RunningMonitor, many: int) -> None:
    for _ in range(many):
        await found.tick()


async def test_every_second_while_an_attempt_runs() -> None:
    found, looked = monitor(running=1)
    await ticks(found, 7)
    assert looked.times == 7


async def test_rarely_while_nothing_runs() -> None:
    found, looked = monitor(running=0)
    await ticks(found, 3 * IDLE_TICKS)
    assert looked.times == 3


async def test_the_last_report_of_an_attempt_that_has_ended_is_written_at_once() -> None:
    report = SimpleNamespace(delivery="a", token=1)
    found, looked = monitor(running=0, a=report)
    await ticks(found, 1)
    assert looked.reported == [report]
