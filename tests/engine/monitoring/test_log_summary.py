"""Each event is a log line of its own, or counted in a summary."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
import pytest

from duly import App, Delivery
from duly.domain import events
from duly.domain.events import Event
from duly.telemetry import Telemetry
from duly.telemetry.log_messages import LIMITED, ONLY_COUNTED, WORDING
from duly.telemetry.telemetry import LINES_PER_SECOND
from duly.testing import VirtualClock
from tests.engine.cluster import Barrier, Cluster
from tests.engine.conftest import START

pytestmark = pytest.mark.requirement("D11")

MANY = 500
SAMPLES: dict[Any, Any] = {
    int: 7,
    float: 7.5,
    str: "word",
    bool: True,
    datetime: datetime(2026, 6, 1, 9, tzinfo=UTC),
    list[int]: [7],
    list[str]: ["word"],
}
SUMMARIES = set(LIMITED.values())


class LogLines(logging.Handler):
    """The log lines of duly, as the events that they report."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.more = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.logged.append((record.event, record.facts))  # type: ignore[attr-defined]
        self.more.set()

    def of(self, kind: type[Event]) -> list[dict[str, Any]]:
        return [facts for event, facts in self.logged if event == kind.__name__]

    def left_out(self) -> int:
        return sum(facts["deliveries"] for kind in SUMMARIES for facts in self.of(kind))

    async def until_all_are_logged(self, kind: type[Event], many: int) -> None:
        async with asyncio.timeout(60):
            while len(self.of(kind)) + self.left_out() < many:
                self.more.clear()
                await self.more.wait()


@pytest.fixture
def lines() -> Iterator[LogLines]:
    found, logger = LogLines(), logging.getLogger("duly")
    level = logger.level
    logger.addHandler(found)
    logger.setLevel(logging.DEBUG)
    yield found
    logger.removeHandler(found)
    logger.setLevel(level)


def sample(kind: type[Event]) -> Event:
    """An event with a value in every field."""
    values = {}
    for field in msgspec.structs.fields(kind):
        choices = get_args(field.type) if type(None) in get_args(field.type) else (field.type,)
        values[field.name] = SAMPLES[choices[0]]
    return kind(**values)


@pytest.mark.parametrize("kind", WORDING, ids=lambda kind: kind.__name__)
def test_every_event_is_logged_or_counted(kind: type[Event], lines: LogLines) -> None:
    telemetry = Telemetry(VirtualClock(START).monotonic)
    for _ in range(MANY):
        telemetry.emit(sample(kind))
    telemetry.summarize()
    left_out = 0 if kind in SUMMARIES else lines.left_out()
    assert len(lines.of(kind)) + left_out == MANY
    assert (left_out > 0) is (kind in LIMITED)
    before = len(lines.logged)
    telemetry.summarize()
    assert len(lines.logged) == before, "nothing is logged twice"


def test_every_event_class_has_a_text_or_is_only_counted() -> None:
    kinds = {each for each in Event.__subclasses__() if each.__module__ == events.__name__}
    assert kinds == set(WORDING) | ONLY_COUNTED


@pytest.mark.parametrize("kind", LIMITED, ids=lambda kind: kind.__name__)
def test_each_second_has_its_own_limit(kind: type[Event], lines: LogLines) -> None:
    clock = VirtualClock(START)
    telemetry = Telemetry(clock.monotonic)
    for _ in range(3):
        for _ in range(MANY):
            telemetry.emit(sample(kind))
        clock.advance(1)
    telemetry.emit(sample(kind))
    assert len(lines.of(kind)) == 3 * LINES_PER_SECOND + 1
    summaries = [facts["deliveries"] for facts in lines.of(LIMITED[kind])]
    assert summaries == [MANY - LINES_PER_SECOND] * 3


async def test_a_worker_logs_the_summary_of_a_backlog_while_it_runs(
    database_url: str, lines: LogLines
) -> None:
    app = App(database_url, environment={}, grace=60)

    @app.handler("work")
    async def work(delivery: Delivery[int]) -> None:
        """Do nothing."""

    async with app:
        long_ago = app.clock.now() - timedelta(hours=1)
        await app.deliver_many(
            {"target": "work", "payload": n, "at": long_ago} for n in range(MANY)
        )
        running = asyncio.create_task(app.run(signals=False))
        await lines.until_all_are_logged(events.DeliveryLate, MANY)
        assert not running.done()
        app.stop()
        await running
    assert len(lines.of(events.DeliveryLate)) < MANY
    assert len(lines.of(events.DeliveryLate)) + lines.left_out() == MANY


async def test_a_stop_logs_the_summary_first(cluster: Cluster, lines: LogLines) -> None:
    app, barrier = cluster.app(), Barrier()
    barrier.open.set()
    app.handler("work")(barrier.handle)
    await app.open()
    await app.deliver_many({"target": "work", "payload": n, "at": START} for n in range(MANY))
    cluster.clock.advance(timedelta(days=1))
    process = await cluster.start_worker(app)
    while await process.engine.worker.step():
        pass
    assert len(lines.of(events.DeliveryLate)) == LINES_PER_SECOND
    assert lines.left_out() == 0
    await process.engine.stop()
    assert lines.left_out() == MANY - LINES_PER_SECOND
    assert lines.logged[-1][0] == "WorkerStopped"


def test_the_same_traceback_is_logged_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock(START)
    telemetry = Telemetry(clock.monotonic)

    def logged(*tracebacks: str) -> list[str | None]:
        caplog.clear()
        for each in tracebacks:
            failed = events.AttemptFailed("1", "work", 1, "error", "no", None, traceback=each)
            telemetry.emit(failed)
        assert len({record.getMessage() for record in caplog.records}) == 1
        return [record.exc_text for record in caplog.records]

    clock.advance(10)
    assert logged("first", "first", "second", "first") == ["first", None, "second", None]
    clock.advance(1)
    assert logged("first", "first") == ["first", None]
