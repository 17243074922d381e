"""For users' tests: a virtual clock, a recording transport, and `run_until_idle`.

    async def test_a_failed_report_is_sent_again_after_half_a_minute(tmp_path):
        clock = VirtualClock()
        app = duly.App(f"sqlite:///{tmp_path}/test.db", clock=clock)
        ...  # register handlers
        async with app:
            accepted = await app.deliver("report", {"team": 7})
            assert await run_until_idle(app) == 1
            clock.advance(40)
            assert await run_until_idle(app) == 1
            assert (await app.get(accepted.id)).state == "completed"

Nothing here waits for time to pass: a handler is awaited, the clock is moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from duly.app import App
from duly.domain import checks
from duly.domain.deliveries import retry
from duly.domain.deliveries.outcomes import Completed, Outcome
from duly.engine.worker import Worker
from duly.errors import DulyError, InvalidInput
from duly.ports import Execution, Transport
from duly.records.retry_plan import RetryPlan

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


class NotIdle(DulyError):
    """Something was still due after the allowed number of attempts."""


class VirtualClock:
    """A clock that moves only when it is advanced; it decides what is due, on PostgreSQL too.

    `sleep` returns at once; with `sleeping_moves_it` it advances the clock by that time.
    """

    virtual = True

    def __init__(self, start: datetime = NEW_YEAR, *, sleeping_moves_it: bool = False) -> None:
        self._now = checks.checked_moment("start", start)
        self._passed = timedelta()
        self._sleeping_moves_it = sleeping_moves_it

    def now(self) -> datetime:
        """The current moment, in UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since its start, without steps."""
        return self._passed.total_seconds()

    def advance(self, by: float | timedelta) -> datetime:
        """Advance by some seconds, never back; returns the new moment."""
        passed = timedelta(seconds=checks.checked_wait("by", by))
        self._passed += passed
        self._now += passed
        return self._now

    def step(self, by: float | timedelta) -> datetime:
        """Step the wall clock forward or back, while no time passes; returns the new moment."""
        self._now += by if isinstance(by, timedelta) else timedelta(seconds=by)
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run."""
        if self._sleeping_moves_it:
            self.advance(max(seconds, 0.0))
        await asyncio.tasks.sleep(0)


class Recorded(msgspec.Struct, frozen=True):
    """One attempt of a RecordingTransport."""

    id: str
    target: str
    payload: bytes
    attempt: int
    key: str | None
    due_at: datetime
    started_at: datetime


Answer = Callable[[Recorded], Outcome]


class RecordingTransport:
    """A transport that records attempts and returns given answers.

    It replaces the handlers: `run_until_idle(app, transport=RecordingTransport("mail"))`. The app
    has to know the targets: call `app.expect("mail")`. `answers` are returned in order, and the
    last one from then on; an answer may be a function of the recorded attempt.
    """

    def __init__(
        self, *targets: str, answers: Sequence[Outcome | Answer] = (), plan: RetryPlan | None = None
    ) -> None:
        self.recorded: list[Recorded] = []
        self._targets = targets
        self._answers = list(answers) or [Completed()]
        self._plan = plan or retry.DEFAULT

    def serves(self) -> Sequence[str]:
        """Its targets."""
        return self._targets

    def reaches(self, target: str) -> bool:
        """Whether the target is one of its own."""
        return target in self._targets

    def plan(self, target: str, namespace: str) -> RetryPlan:  # noqa: ARG002 - one plan for all
        """Its retry plan."""
        return self._plan

    async def attempt(self, execution: Execution) -> Outcome:
        """Record the attempt, and return the next answer."""
        claimed = execution.claimed
        recorded = Recorded(
            claimed.id,
            execution.target,
            claimed.payload,
            claimed.attempt + 1,
            claimed.key or claimed.unique_key,
            claimed.due_at,
            execution.started_at,
        )
        self.recorded.append(recorded)
        answer = self._answers[min(len(self.recorded), len(self._answers)) - 1]
        return answer(recorded) if callable(answer) else answer


async def run_until_idle(
    app: App,
    *,
    within: float | timedelta | None = None,
    transport: Transport | None = None,
    most: int = 10_000,
) -> int:
    """Attempt everything that is due by the app's clock; returns the number of attempts.

    Deliveries that the attempts create are included. With `within`, the app's clock, which has to
    be a VirtualClock, is advanced to each delivery that is due in that time, so retries and later
    occurrences are included too. NotIdle after `most` attempts: a handler may deliver to itself.
    Each call is a new worker, which first reclaims the deliveries of earlier ones.
    """
    until = None if within is None else _horizon(app, within)
    await app.open()
    counted = _Counted(transport or app.transports)
    engine = app.engine(counted, stepped=True)
    worker = engine.worker
    await engine.prepare()
    try:
        while await worker.step() or (until is not None and await _advance(app, worker, until)):
            if counted.attempts > most:
                raise NotIdle(f"not idle after {most} attempts; does a handler deliver to itself?")
    finally:
        await engine.stop()
    return counted.attempts


class _Counted:
    """A transport and how many attempts it made."""

    def __init__(self, transport: Transport) -> None:
        self.attempts = 0
        self.serves, self.reaches, self.plan = transport.serves, transport.reaches, transport.plan
        self._transport = transport

    async def attempt(self, execution: Execution) -> Outcome:
        self.attempts += 1
        return await self._transport.attempt(execution)


def _horizon(app: App, within: float | timedelta) -> datetime:
    if not isinstance(app.clock, VirtualClock):
        raise InvalidInput("within", "only a VirtualClock can be moved; App(..., clock=clock)")
    return app.clock.now() + timedelta(seconds=checks.checked_wait("within", within))


async def _advance(app: App, worker: Worker, until: datetime) -> bool:
    """Advance the clock to the next due delivery; False if there is none."""
    assert isinstance(app.clock, VirtualClock)
    due_at, now = await worker.next_due(), app.clock.now()
    # A due delivery that was not claimed waits for something else than time.
    if due_at is None or not now < due_at <= until:
        return False
    app.clock.advance(due_at - now)
    return True
