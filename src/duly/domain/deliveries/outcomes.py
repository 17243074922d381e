"""Outcomes of attempts, and the settlement that follows: decided here, written by the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import assert_never

import msgspec

from duly.domain.deliveries.crashes import CrashRule
from duly.domain.deliveries.delivery import ALONE, Claimed, Lane
from duly.domain.deliveries.fingerprints import fingerprint
from duly.domain.deliveries.identifiers import worker_of
from duly.domain.deliveries.retry import attempts_allowed, next_delay
from duly.domain.moments import moment_at
from duly.records.attempt import Step
from duly.records.reason import Reason
from duly.records.retry_plan import RetryPlan

LONGEST_ERROR = 4000
LONGEST_TRACEBACK = 8192
LONGEST_CLASS = 200


class Completed(msgspec.Struct, frozen=True):
    """The target accepted the delivery; `answer`, as JSON, is stored with the attempt."""

    answer: str | None = None
    has_result: bool = False
    """Whether the handler returned something, also if that is not kept."""


class Failed(msgspec.Struct, frozen=True):
    """The attempt failed; `again=False` forbids another one.

    `after` replaces the wait of the retry plan; `at_least` can only lengthen it.
    """

    reason: Reason
    error: str
    after: float | None = None
    again: bool | None = None
    at_least: float | None = None
    answer: str | None = None
    gone: bool = False
    """The target answered that it no longer exists (410)."""
    traceback: str | None = None
    """The traceback in the user's code."""
    exception: str | None = None
    """The class of the exception that the user's code raised."""
    status: int | None = None
    """A status that ends the delivery unless the plan's `retry_on` includes it."""
    advice: str = ""
    """What to do about it; added to the error unless `retry_on` applies."""


class Released(msgspec.Struct, frozen=True):
    """The delivery was released without an attempt."""


class Expired(msgspec.Struct, frozen=True):
    """The delivery expired before its attempt started."""


class Overlapped(msgspec.Struct, frozen=True):
    """Skipped: an earlier occurrence of the schedule was unfinished and `overlap` is `skip`."""


class Deferred(msgspec.Struct, frozen=True):
    """The delivery cannot run yet: no attempt is spent and none is recorded.

    Without a wait another worker may claim it at once.
    """

    wait: float | None


class Cancelled(msgspec.Struct, frozen=True):
    """The attempt ended because somebody asked to cancel the delivery."""

    error: str | None = None
    traceback: str | None = None
    exception: str | None = None


STORE_AWAY = Deferred(1.0)
"""The store failed during the attempt; the wait keeps the worker from retrying in a tight loop."""


HANDED_BACK = Deferred(None)
"""It was claimed ahead and not started."""


class Crashed(msgspec.Struct, frozen=True):
    """The worker that held it died."""


Outcome = Completed | Failed | Released | Expired | Overlapped | Deferred | Cancelled | Crashed


class Verdict(StrEnum):
    """The state change of a settlement; the values also appear in the history."""

    COMPLETED = "completed"
    RETRY = "retry"
    DEAD = "dead"
    RELEASED = "released"
    RECLAIMED = "reclaimed"
    EXPIRED = "expired"
    SKIPPED = "skipped"
    DEFERRED = "deferred"
    CANCELLED = "cancelled"
    EMPTIED = "emptied"


class Settlement(msgspec.Struct):
    """What to write for a lane held under `token`; if the token has changed, nothing is written."""

    lane: Lane
    token: int
    delivery: str
    verdict: Verdict
    attempt: int
    started_us: int | None
    finished_us: int
    """Microseconds since 1970: two datetimes would be a tenth of the cost of a delivery."""
    priority: int
    crashes: int = 0
    wait: float | None = None
    reason: str | None = None
    error: str | None = None
    answer: str | None = None
    fingerprint: str | None = None
    """The fingerprint of the error, if the delivery is dead."""
    gone: bool = False
    position: int | None = None
    on_failure: str | None = None
    follower: tuple[str, int] | None = None
    """Id and position of the next delivery of the same run, attempted under the same token."""
    target: int = 0
    due_at: datetime | None = None
    ready_at: datetime | None = None
    """`target`, `due_at` and `ready_at` are for statistics."""
    occasion: str | None = None
    """The encoded Occasion of the schedule."""
    steps: tuple[Step, ...] = ()
    """Steps of the attempt that are not stored yet; written with every verdict."""
    traceback: str | None = None
    exception: str | None = None
    unique_key: str | None = None

    @property
    def started_at(self) -> datetime | None:
        """When the attempt started; None if there was none."""
        return None if self.started_us is None else moment_at(self.started_us)

    @property
    def finished_at(self) -> datetime:
        """When the attempt ended."""
        return moment_at(self.finished_us)

    @property
    def is_handed_back(self) -> bool:
        """Whether it was not started, and another worker may claim it at once."""
        return self.verdict is Verdict.DEFERRED and self.wait is None


def complete(
    claimed: Claimed,
    started_us: int | None,
    finished_us: int,
    answer: str | None = None,
) -> Settlement:
    """The settlement of a completed delivery."""
    return Settlement(
        claimed.lane,
        claimed.token,
        claimed.id,
        Verdict.COMPLETED,
        claimed.attempt + 1,
        started_us,
        finished_us,
        claimed.priority,
        position=claimed.position,
        on_failure=claimed.on_failure,
        answer=answer,
        target=claimed.target,
        due_at=claimed.due_at,
        ready_at=claimed.ready_at,
        occasion=claimed.occasion,
        unique_key=claimed.unique_key,
    )


def emptied(claimed: Claimed, now_us: int) -> Settlement:
    """The settlement of a stream's lane in which no delivery was found."""
    return Settlement(
        claimed.lane,
        claimed.token,
        claimed.id,
        Verdict.EMPTIED,
        0,
        None,
        now_us,
        ALONE,
        position=claimed.position,
    )


def settle(
    claimed: Claimed,
    outcome: Outcome,
    plan: RetryPlan,
    *,
    started_us: int | None,
    finished_us: int,
    chance: Callable[[], float],
    crash_rule: CrashRule,
) -> Settlement:
    """The settlement of a delivery for an outcome."""
    settlement = complete(claimed, started_us, finished_us)
    match outcome:
        case Completed():
            settlement.answer = outcome.answer
        case Failed():
            _fail(settlement, outcome, plan, chance)
        case Released():
            _release(settlement, claimed)
        case Expired():
            _end_unstarted(settlement, claimed, Verdict.EXPIRED, "expired")
        case Overlapped():
            _end_unstarted(settlement, claimed, Verdict.SKIPPED, "overlap")
        case Deferred():
            _release(settlement, claimed)
            settlement.verdict = Verdict.DEFERRED
            settlement.wait = outcome.wait
        case Cancelled():
            settlement.verdict, settlement.reason = Verdict.CANCELLED, "cancelled"
            if started_us is None:
                settlement.attempt = claimed.attempt  # its worker died
            _describe(settlement, outcome)
        case Crashed():
            _count_crash(settlement, claimed, plan, chance, crash_rule)
        case _:
            assert_never(outcome)
    if crash_rule.runs_alone(settlement.crashes):
        settlement.priority = ALONE
    return settlement


def _end_unstarted(settlement: Settlement, claimed: Claimed, verdict: Verdict, reason: str) -> None:
    settlement.verdict = verdict
    settlement.attempt = claimed.attempt
    settlement.reason = reason


def _fail(
    settlement: Settlement, failed: Failed, plan: RetryPlan, chance: Callable[[], float]
) -> None:
    if failed.status is not None and plan.retries_on(failed.status):
        failed = msgspec.structs.replace(
            failed, reason=Reason.DEPENDENCY_FAILURE, again=None, advice=""
        )
    settlement.reason = failed.reason
    settlement.answer = failed.answer
    settlement.gone = failed.gone
    _describe(settlement, failed)
    settlement.error = _storable(failed.error + failed.advice, LONGEST_ERROR)
    wait = _wait(failed, plan, settlement.attempt, chance)
    if wait is None:
        settlement.verdict = Verdict.DEAD
        settlement.fingerprint = fingerprint(settlement.reason, settlement.error)
    else:
        settlement.verdict = Verdict.RETRY
        settlement.wait = wait


def _describe(settlement: Settlement, ended: Failed | Cancelled) -> None:
    """Note what the user's code raised."""
    if ended.error is not None:
        settlement.error = _storable(ended.error, LONGEST_ERROR)
    if ended.exception is not None:
        settlement.exception = _storable(ended.exception, LONGEST_CLASS)
    if ended.traceback is not None:
        settlement.traceback = _storable(ended.traceback, LONGEST_TRACEBACK)


def _storable(error: str, max_length: int) -> str:
    # The store would refuse the whole batch, on every try, for one NUL or lone surrogate.
    text = error[:max_length].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text.encode(errors="replace").decode()


def _wait(
    failed: Failed, plan: RetryPlan, failures: int, chance: Callable[[], float]
) -> float | None:
    if failed.again is False:
        return None
    if failed.after is not None:
        # A requested wait replaces the plan's wait, but not its limit on attempts.
        return failed.after if failures < attempts_allowed(plan) else None
    wait = next_delay(plan, failed.reason, failures, chance())
    return wait if wait is None else max(wait, failed.at_least or 0.0)


def _release(settlement: Settlement, claimed: Claimed) -> None:
    settlement.verdict = Verdict.RELEASED
    settlement.attempt = claimed.attempt
    settlement.crashes = claimed.crashes
    settlement.started_us = None


def _count_crash(
    settlement: Settlement,
    claimed: Claimed,
    plan: RetryPlan,
    chance: Callable[[], float],
    rule: CrashRule,
) -> None:
    settlement.crashes = claimed.crashes + 1
    if not rule.runs_alone(claimed.crashes):
        settlement.verdict = Verdict.RECLAIMED
        settlement.attempt = claimed.attempt
        settlement.error = f"worker {worker_of(claimed.token)} died while it held this"
        return
    error = f"its worker died {settlement.crashes} times while holding it, the last time alone"
    proven = rule.is_poison(settlement.crashes) or settlement.attempt >= attempts_allowed(plan)
    reason = Reason.POISON_MESSAGE if proven else Reason.UNKNOWN
    _fail(settlement, Failed(reason, error), plan, chance)
