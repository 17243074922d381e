"""What becomes of a stream when its head does: the decision table, and nothing else.

| head                            | policy  | those behind it                                  |
|---------------------------------|---------|--------------------------------------------------|
| processing                      | any     | wait                                             |
| waits for its retry             | block   | wait                                             |
| waits for its retry             | release | proceed; the head is retried beside them         |
| dead                            | block   | wait until somebody retries, discards, releases  |
| dead                            | release | proceed                                          |
| completed, cancelled, discarded | any     | proceed                                          |
| waits for its retry             | queue   | wait                                             |
| dead                            | queue   | proceed                                          |

`queue` is the policy of the streams in which schedules with `overlap="queue"` run, and of no
other: a dead occurrence does not end its schedule.
"""

from __future__ import annotations

from enum import StrEnum

from duly.domain import checks
from duly.domain.deliveries.outcomes import Verdict
from duly.errors import InvalidInput

OF_SCHEDULES = "duly:schedule:"
"""How the names of streams begin that belong to schedules; nobody else may deliver to them."""
LONGEST_NAME = checks.KEY_LIMIT + len(OF_SCHEDULES)


class OnFailure(StrEnum):
    """What a failed head does to those behind it, as people may ask for it."""

    BLOCK = "block"
    RELEASE = "release"


class Policy(StrEnum):
    """What a failed head does to those behind it."""

    BLOCK = "block"
    RELEASE = "release"
    QUEUE = "queue"


class Move(StrEnum):
    """What a settlement does to the line its delivery stands in."""

    STAY = "stay"
    """It stays the head, and all others wait."""
    COMPLETE = "complete"
    """It is done: the next one is the head."""
    LEAVE = "leave"
    """It leaves the line, whatever becomes of it: the next one is the head."""
    BLOCK = "block"
    """It is dead, and the stream stands still behind it."""


LEAVES = frozenset({Verdict.EXPIRED, Verdict.SKIPPED})


def move(verdict: Verdict, policy: Policy, *, plain: bool = True) -> Move:
    """What the verdict on its head does to a stream; a `plain` completion has nothing to record."""
    if verdict is Verdict.COMPLETED:
        return Move.COMPLETE if plain else Move.LEAVE
    if verdict is Verdict.EMPTIED:
        return Move.COMPLETE
    if verdict in LEAVES:
        return Move.LEAVE
    if verdict is Verdict.RETRY:
        return Move.LEAVE if policy is Policy.RELEASE else Move.STAY
    if verdict is Verdict.DEAD:
        return Move.BLOCK if policy is Policy.BLOCK else Move.LEAVE
    return Move.STAY


def checked_policy(value: object) -> OnFailure:
    """A policy by its name."""
    try:
        return OnFailure(str(value))
    except ValueError:
        raise InvalidInput("on_failure", f"{value!r} is neither block nor release") from None


def stream_of_schedule(schedule: str) -> str:
    """The stream in which the occurrences of a schedule wait for each other."""
    return f"{OF_SCHEDULES}{schedule}"


def policy_of(name: str, configured: str | None) -> Policy:
    """What a failed head does in a stream, unless the delivery says something else."""
    if name.startswith(OF_SCHEDULES):
        return Policy.QUEUE
    return Policy(configured or Policy.BLOCK)


def checked_stream(value: object) -> str:
    """The name of any stream, to look at it or to change it."""
    return checks.checked_text("stream", value, LONGEST_NAME)


def checked_own_stream(value: object) -> str:
    """The name of a stream to deliver to."""
    name = checks.checked_text("stream", value)
    if name.startswith(OF_SCHEDULES):
        raise InvalidInput(
            "stream", f"names that begin with {OF_SCHEDULES} belong to schedules; take another"
        )
    return name
