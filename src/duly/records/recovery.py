"""Recovery of dead letters: policies, dispositions, and generations of a deployment."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from duly.records.reason import Reason


class Disposition(StrEnum):
    """What is to happen with a dead letter; without one it waits for an operator."""

    RECOVERING = "recovering"
    """A recovery policy retries it."""
    HELD = "held"
    """Nothing touches it until it is released."""
    GIVEN_UP = "given_up"
    """It stays dead for good."""


class WhichLetters(StrEnum):
    """Dead letters by disposition; `open` are those neither held nor given up."""

    OPEN = "open"
    RECOVERING = "recovering"
    HELD = "held"
    GIVEN_UP = "given_up"


class AfterTries(StrEnum):
    """What a policy does with a dead letter when its tries are used up."""

    HOLD = "hold"
    FAIL = "fail"


THROTTLED = "throttled"
"""The receiver of a webhook answered 429 until the end."""
EXHAUSTED = "attempts_exhausted"
"""All attempts failed, for any reason without a policy of its own."""
CAUSES = (*Reason, THROTTLED, EXHAUSTED)


class RecoveryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How dead letters of one reason recover: `tries` retries, each `after` seconds dead.

    Without a target it applies to all targets that have none of their own for the reason.
    """

    reason: Annotated[str, Meta(description="why they died; " + ", ".join(CAUSES))]
    target: Annotated[str | None, Meta(description="only its dead letters")] = None
    tries: Annotated[int, Meta(description="how often; 0 leaves them alone, or ends them at once")]
    after: Annotated[float, Meta(description="seconds between death and retry")] = 0.0
    then: Annotated[
        AfterTries | None,
        Meta(description="after the last try they are held, or given up (fail)"),
    ] = None
    is_preset: Annotated[bool, Meta(description="it comes from the setting, not the store")] = False


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A generation of a deployment, in which dead letters of before get one try each."""

    name: str
    first_at: Annotated[datetime, Meta(description="when its first worker started")]
    with_held: Annotated[bool, Meta(description="held dead letters are tried, too")]
    tried: Annotated[int, Meta(description="dead letters retried so far")]
    done_at: Annotated[datetime | None, Meta(description="when all had had their try")] = None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters a generation tries, and the generation unless it was a dry run."""

    matching: int
    generation: Generation | None = None
