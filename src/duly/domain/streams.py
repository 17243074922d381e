"""What becomes of a stream when its head does: the decision table, and nothing else.

| head                            | policy  | those behind it                                  |
|---------------------------------|---------|--------------------------------------------------|
| processing                      | any     | wait                                             |
| waits for its retry             | block   | wait                                             |
| waits for its retry             | release | proceed; the head is retried beside them         |
| dead                            | block   | wait until somebody retries, discards, releases  |
| dead                            | release | proceed                                          |
| completed, cancelled, discarded | any     | proceed                                          |
"""

from __future__ import annotations

from enum import StrEnum

from duly.domain.errors import InvalidInput
from duly.domain.outcomes import Verdict


class OnFailure(StrEnum):
    """What a failed head does to those behind it."""

    BLOCK = "block"
    RELEASE = "release"


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


def move(verdict: Verdict, policy: OnFailure, *, plain: bool = True) -> Move:
    """What the verdict on its head does to a stream; a `plain` completion has nothing to record."""
    if verdict is Verdict.COMPLETED:
        return Move.COMPLETE if plain else Move.LEAVE
    if verdict is Verdict.EMPTIED:
        return Move.COMPLETE
    if verdict in LEAVES:
        return Move.LEAVE
    if verdict is Verdict.RETRY:
        return Move.LEAVE if policy is OnFailure.RELEASE else Move.STAY
    if verdict is Verdict.DEAD:
        return Move.LEAVE if policy is OnFailure.RELEASE else Move.BLOCK
    return Move.STAY


def checked_policy(value: object) -> OnFailure:
    """A policy by its name."""
    try:
        return OnFailure(str(value))
    except ValueError:
        raise InvalidInput("on_failure", f"{value!r} is neither block nor release") from None
