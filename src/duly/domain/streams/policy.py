"""What happens to a stream when its head ends or fails: the decision table.

| head                            | policy  | those behind it                                  |
|---------------------------------|---------|--------------------------------------------------|
| processing                      | any     | wait                                             |
| waits for its retry             | block   | wait                                             |
| waits for its retry             | release | proceed; the head is retried beside them         |
| dead                            | block   | wait until somebody retries, discards, releases  |
| waits for its retry, or dead    | block   | proceed when the block was limited and is over   |
| dead                            | release | proceed                                          |
| completed, cancelled, discarded | any     | proceed                                          |
| waits for its retry             | queue   | wait                                             |
| dead                            | queue   | proceed                                          |

`queue` is the policy of the streams in which schedules with `overlap="queue"` run, and of no
other: a dead occurrence must not stop its schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from duly.domain import checks
from duly.domain.deliveries.outcomes import Verdict
from duly.domain.time.durations import seconds_of
from duly.errors import InvalidInput, quoted
from duly.records.stream import OnFailure, Policy

OF_SCHEDULES = "duly:schedule:"
"""Prefix of the streams of schedules; callers cannot deliver to them."""
LONGEST_BLOCK = timedelta(days=365)
RELEASED_DOES_NOT_BLOCK = "a head that is released does not block; leave it out, or give block"
LONGEST_NAME = checks.KEY_LIMIT + len(OF_SCHEDULES)


class Move(StrEnum):
    """What a settlement does to the queue of its stream."""

    STAY = "stay"
    """The delivery stays the head, and all others wait."""
    COMPLETE = "complete"
    """The delivery is done, and the next one becomes the head."""
    LEAVE = "leave"
    """The delivery leaves the queue, and the next one becomes the head."""
    BLOCK = "block"
    """The delivery is dead, and the stream is blocked."""


LEAVES = frozenset({Verdict.EXPIRED, Verdict.SKIPPED, Verdict.CANCELLED})


def move(verdict: Verdict, policy: Policy) -> Move:
    """What the verdict on its head does to a stream."""
    if verdict in (Verdict.COMPLETED, Verdict.EMPTIED):
        return Move.COMPLETE
    if verdict in LEAVES:
        return Move.LEAVE
    if verdict is Verdict.RETRY:
        return Move.LEAVE if policy is Policy.RELEASE else Move.STAY
    if verdict is Verdict.DEAD:
        return Move.BLOCK if policy is Policy.BLOCK else Move.LEAVE
    return Move.STAY


def checked_policy(value: object) -> OnFailure:
    """A policy by name."""
    try:
        return OnFailure(str(value))
    except ValueError:
        raise InvalidInput("on_failure", f"{value!r} is none of {', '.join(OnFailure)}") from None


def checked_block(value: object) -> float:
    """For how many seconds a failed head blocks its stream: more than 0, at most a year."""
    seconds = seconds_of("block_for", value)  # type: ignore[arg-type]
    if not 0 < seconds <= LONGEST_BLOCK.total_seconds():
        raise InvalidInput(
            "block_for",
            f"{quoted(value)} is not more than 0 and at most 365 days; "
            "leave it out to block until somebody acts",
        )
    return seconds


def checked_stream_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options of a stream, checked."""
    unknown = given.keys() - OPTIONS.keys()
    if unknown:
        raise TypeError(f"a stream has no option {sorted(unknown)[0]!r}")
    if not given:
        raise InvalidInput("on_failure", "there is nothing to change; give it or block_for")
    checked = {
        name: None if value is None else OPTIONS[name](value) for name, value in given.items()
    }
    if checked.get("on_failure") is OnFailure.RELEASE and checked.get("block_for") is not None:
        raise InvalidInput("block_for", RELEASED_DOES_NOT_BLOCK)
    return checked


OPTIONS: dict[str, Callable[[object], object]] = {
    "on_failure": checked_policy,
    "block_for": checked_block,
}


def stream_of_schedule(schedule: str) -> str:
    """The stream in which the occurrences of a schedule wait for each other."""
    return f"{OF_SCHEDULES}{schedule}"


def policy_of(name: str, configured: str | None) -> Policy:
    """The policy of a stream, unless a delivery has its own."""
    if name.startswith(OF_SCHEDULES):
        return Policy.QUEUE
    return Policy(configured or Policy.BLOCK)


def checked_stream(value: object) -> str:
    """The name of any stream, to read or change it."""
    return checks.checked_text("stream", value, LONGEST_NAME)


def checked_own_stream(value: object) -> str:
    """The name of a stream to deliver to."""
    name = checks.checked_text("stream", value)
    if name.startswith(OF_SCHEDULES):
        raise InvalidInput(
            "stream", f"names that begin with {OF_SCHEDULES} belong to schedules; take another"
        )
    return name
