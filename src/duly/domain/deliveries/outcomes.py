"""What came of an attempt, and what follows from it: decided here, written by the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import assert_never

import msgspec

from duly.domain.deliveries.crashes import CrashRule
from duly.domain.deliveries.delivery import ALONE, Claimed, Lane
from duly.domain.deliveries.failures import Reason
from duly.domain.deliveries.fingerprints import fingerprint
from duly.domain.deliveries.identifiers import worker_of
from duly.domain.deliveries.retry import RetryPlan, attempts_allowed, next_delay
from duly.domain.deliveries.steps import Step

LONGEST_ERROR = 4000
LONGEST_TRACEBACK = 8192


class Completed(msgspec.Struct, frozen=True):
    """The target took it; `answer` is what the attempt's record keeps of its reply."""

    answer: str | None = None


class Failed(msgspec.Struct, frozen=True):
    """The attempt failed; `after` is a wait that was asked for, `again=False` forbids another.

    `at_least` never shortens the plan's wait, as `after` may.
    """

    reason: Reason
    error: str
    after: float | None = None
    again: bool | None = None
    at_least: float | None = None
    answer: str | None = None
    gone: bool = False
    """The target says that it wants nothing any more."""
    traceback: str | None = None
    """Where in the user's code it failed."""
    status: int | None = None
    """The status of an answer that ends the delivery unless the plan's `retry_on` has it."""
    advice: str = ""
    """What to do about it; added to the error if it ends the delivery."""


class Released(msgspec.Struct, frozen=True):
    """It was handed back untouched: no attempt is spent."""


class Expired(msgspec.Struct, frozen=True):
    """Its time had passed before it was started."""


class Overlapped(msgspec.Struct, frozen=True):
    """An earlier occurrence of its schedule was unfinished, and the schedule says to skip then."""


class Deferred(msgspec.Struct, frozen=True):
    """It cannot run yet, through no fault of its own: no attempt is spent, nothing is told."""

    wait: float


STORE_AWAY = Deferred(1.0)
"""The store went away in the middle of the attempt; the wait keeps a worker from spinning."""


class Crashed(msgspec.Struct, frozen=True):
    """The worker that held it died."""


Outcome = Completed | Failed | Released | Expired | Overlapped | Deferred | Crashed


class Verdict(StrEnum):
    """The move that a settlement makes; each is a word of the history too."""

    COMPLETED = "completed"
    RETRY = "retry"
    DEAD = "dead"
    RELEASED = "released"
    RECLAIMED = "reclaimed"
    EXPIRED = "expired"
    SKIPPED = "skipped"
    DEFERRED = "deferred"
    EMPTIED = "emptied"


class Settlement(msgspec.Struct):
    """What to write about a lane that is held under `token`; nothing is written under another."""

    lane: Lane
    token: int
    delivery: str
    verdict: Verdict
    attempt: int
    started_at: datetime | None
    finished_at: datetime
    priority: int
    crashes: int = 0
    wait: float | None = None
    reason: str | None = None
    error: str | None = None
    answer: str | None = None
    fingerprint: str | None = None
    """Of one that is dead: what its error has in common with others."""
    gone: bool = False
    position: int | None = None
    on_failure: str | None = None
    follower: tuple[str, int] | None = None
    """The next of the same run, which is attempted now under the same token: id and position."""
    target: int = 0
    due_at: datetime | None = None
    ready_at: datetime | None = None
    """Where it goes and since when it could be attempted, for the figures."""
    occasion: str | None = None
    """What the delivery knows of its schedule, as it is stored."""
    steps: tuple[Step, ...] = ()
    """What the attempt did in part and is not on the books yet; written whatever the verdict."""
    traceback: str | None = None


def complete(
    claimed: Claimed,
    started_at: datetime | None,
    finished_at: datetime,
    answer: str | None = None,
) -> Settlement:
    """What the usual outcome means: nothing but an end."""
    return Settlement(
        claimed.lane,
        claimed.token,
        claimed.id,
        Verdict.COMPLETED,
        claimed.attempt + 1,
        started_at,
        finished_at,
        claimed.priority,
        position=claimed.position,
        on_failure=claimed.on_failure,
        answer=answer,
        target=claimed.target,
        due_at=claimed.due_at,
        ready_at=claimed.ready_at,
        occasion=claimed.occasion,
    )


def emptied(claimed: Claimed, now: datetime) -> Settlement:
    """What a stream's lane means in which nobody was found."""
    return Settlement(
        claimed.lane,
        claimed.token,
        claimed.id,
        Verdict.EMPTIED,
        0,
        None,
        now,
        ALONE,
        position=claimed.position,
    )


def settle(
    claimed: Claimed,
    outcome: Outcome,
    plan: RetryPlan,
    *,
    started_at: datetime | None,
    finished_at: datetime,
    chance: Callable[[], float],
    crash_rule: CrashRule,
) -> Settlement:
    """Decide what an outcome means for its delivery."""
    settlement = complete(claimed, started_at, finished_at)
    match outcome:
        case Completed():
            settlement.answer = outcome.answer
        case Failed():
            _fail(settlement, outcome, plan, chance)
        case Released():
            _hand_back(settlement, claimed)
        case Expired():
            _end_unrun(settlement, claimed, Verdict.EXPIRED, "expired")
        case Overlapped():
            _end_unrun(settlement, claimed, Verdict.SKIPPED, "overlap")
        case Deferred():
            _hand_back(settlement, claimed)
            settlement.verdict = Verdict.DEFERRED
            settlement.wait = outcome.wait
        case Crashed():
            _count_crash(settlement, claimed, plan, chance, crash_rule)
        case _:
            assert_never(outcome)
    if crash_rule.runs_alone(settlement.crashes):
        settlement.priority = ALONE
    return settlement


def _end_unrun(settlement: Settlement, claimed: Claimed, verdict: Verdict, reason: str) -> None:
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
    settlement.error = _storable(failed.error + failed.advice, LONGEST_ERROR)
    if failed.traceback is not None:
        settlement.traceback = _storable(failed.traceback, LONGEST_TRACEBACK)
    wait = _wait(failed, plan, settlement.attempt, chance)
    if wait is None:
        settlement.verdict = Verdict.DEAD
        settlement.fingerprint = fingerprint(settlement.reason, settlement.error)
    else:
        settlement.verdict = Verdict.RETRY
        settlement.wait = wait


def _storable(told: str, most: int) -> str:
    # A NUL or a lone surrogate in one error would make the store refuse the whole batch, for ever.
    text = told[:most].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text.encode(errors="replace").decode()


def _wait(
    failed: Failed, plan: RetryPlan, failures: int, chance: Callable[[], float]
) -> float | None:
    if failed.again is False:
        return None
    if failed.after is not None:
        # A wait that was asked for replaces the plan's, but never its limit.
        return failed.after if failures < attempts_allowed(plan) else None
    wait = next_delay(plan, failed.reason, failures, chance())
    return wait if wait is None else max(wait, failed.at_least or 0.0)


def _hand_back(settlement: Settlement, claimed: Claimed) -> None:
    settlement.verdict = Verdict.RELEASED
    settlement.attempt = claimed.attempt
    settlement.crashes = claimed.crashes
    settlement.started_at = None


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
