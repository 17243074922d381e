"""Which dead letters recover by themselves, and when: policies applied to letters.

| dead letter                       | becomes    | then                                      |
|-----------------------------------|------------|-------------------------------------------|
| a policy applies, tries are left  | recovering | it is retried at the end of its cool-down |
| a policy applies, no tries left   | held or given up | an operator releases a held one      |
| no policy applies                 | left alone | an operator retries or discards it        |
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import sha256

import msgspec

from duly.domain.deliveries.retry import decode, is_exhausted
from duly.domain.endpoints.endpoint import wanted_target
from duly.domain.endpoints.webhooks import ANSWERED
from duly.domain.time.durations import seconds_of
from duly.errors import InvalidInput, quoted
from duly.records.reason import Reason
from duly.records.recovery import (
    CAUSES,
    EXHAUSTED,
    THROTTLED,
    AfterTries,
    Disposition,
    RecoveryPolicy,
)
from duly.records.retry_plan import RetryPlan

MOST_TRIES = 100
LONGEST_COOL_DOWN = timedelta(days=366)
PRESETS = "presets"
TOO_MANY_REQUESTS = ANSWERED.format(429)
GENERATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/+@-]{0,99}\Z")
MINUTE, HOUR = 60.0, 3600.0


def _preset(reason: str, tries: int, after: float) -> RecoveryPolicy:
    return RecoveryPolicy(
        reason=reason, tries=tries, after=after, then=AfterTries.HOLD, is_preset=True
    )


PRESET_POLICIES = (
    _preset(THROTTLED, 3, 30 * MINUTE),
    _preset(Reason.TRANSPORT_UNAVAILABLE, 3, HOUR),
    _preset(Reason.POISON_MESSAGE, 5, 0.0),
    _preset(EXHAUSTED, 1, 6 * HOUR),
)
"""Validation failures and serialization errors have none: a retry would not help."""


class DeadLetter(msgspec.Struct, frozen=True):
    """What the policies look at."""

    id: str
    target: str
    reason: str | None
    error: str | None
    attempt: int
    retry: str | None
    dead_at: datetime
    revivals: int
    stream: str | None = None
    """Its stream, if it has a position in it."""


class Decision(msgspec.Struct, frozen=True):
    """What the policies do with a dead letter; `left` means that none applies."""

    letter: DeadLetter
    disposition: Disposition | None
    revive_at: datetime | None = None
    note: str | None = None


class Policies:
    """The policies of a namespace, by target and reason."""

    def __init__(self, given: Iterable[RecoveryPolicy]) -> None:
        """Earlier ones are preferred to later ones of the same target and reason."""
        self._found: dict[tuple[str | None, str], RecoveryPolicy] = {}
        for each in given:
            self._found.setdefault((each.target, each.reason), each)

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def all(self) -> list[RecoveryPolicy]:
        """All of them: those for all targets first."""
        return sorted(self._found.values(), key=lambda each: (each.target or "", each.reason))

    @property
    def digest(self) -> str:
        """Differs if the policies differ."""
        return sha256(msgspec.json.encode(self.all)).hexdigest()[:16]

    def decide(self, letter: DeadLetter, plan: RetryPlan) -> Decision:
        """What they do with a dead letter; `plan` is the retry plan of its target."""
        policy = self.policy_for(letter, plan)
        if policy is None or (policy.tries == 0 and policy.then is None):
            return Decision(letter, None)
        if letter.revivals < policy.tries:
            revive_at = letter.dead_at + timedelta(seconds=policy.after)
            return Decision(letter, Disposition.RECOVERING, revive_at)
        held = policy.then is not AfterTries.FAIL
        note = f"recovery policy for {policy.reason}: {letter.revivals} of {policy.tries} tries"
        return Decision(
            letter, Disposition.HELD if held else Disposition.GIVEN_UP, note=f"{note} used up"
        )

    def policy_for(self, letter: DeadLetter, plan: RetryPlan) -> RecoveryPolicy | None:
        """The policy that applies: one of the target before one for all, then by cause."""
        causes = _causes(letter, plan)
        for target in (letter.target, None):
            for cause in causes:
                if (found := self._found.get((target, cause))) is not None:
                    return found
        return None


def _causes(letter: DeadLetter, plan: RetryPlan) -> list[str]:
    """Why it died, the most specific first."""
    try:
        reason = Reason(letter.reason or "")
    except ValueError:
        return []  # an operator made it a dead letter
    if letter.retry is not None:
        # An unreadable plan counts as none, as it does for attempts.
        with contextlib.suppress(msgspec.MsgspecError):
            plan = decode(letter.retry)
    throttled = reason is Reason.DEPENDENCY_FAILURE and letter.error == TOO_MANY_REQUESTS
    exhausted = is_exhausted(plan, reason, letter.attempt)
    return [*([THROTTLED] if throttled else []), reason, *([EXHAUSTED] if exhausted else [])]


def policies_of(stored: Iterable[RecoveryPolicy], setting: str) -> Policies:
    """The stored policies, and the presets if the setting turns them on."""
    return Policies([*stored, *(PRESET_POLICIES if setting == PRESETS else ())])


def checked_policy(
    reason: object,
    *,
    tries: object,
    after: float | timedelta | str = 0.0,
    then: AfterTries | str | None = None,
    target: object = None,
) -> RecoveryPolicy:
    """A valid policy; one without an end is refused."""
    if isinstance(tries, bool) or not isinstance(tries, int) or not 0 <= tries <= MOST_TRIES:
        raise InvalidInput(
            "tries", f"{quoted(tries)} is no number from 0 to {MOST_TRIES}; a policy has to end"
        )
    if tries and then is None:
        raise InvalidInput("then", "a policy has to end; give hold or fail")
    cool_down = seconds_of("after", after)
    if cool_down > LONGEST_COOL_DOWN.total_seconds():
        raise InvalidInput("after", "a cool-down lasts at most a year")
    return RecoveryPolicy(
        reason=checked_cause(reason),
        target=None if target is None else wanted_target(target),
        tries=tries,
        after=cool_down,
        then=None if then is None else _ending(then),
    )


def checked_cause(reason: object) -> str:
    """A reason for which there can be a policy."""
    if reason not in CAUSES:
        raise InvalidInput("reason", f"{quoted(reason)} is none of {', '.join(CAUSES)}")
    return str(reason)


def _ending(then: AfterTries | str) -> AfterTries:
    try:
        return AfterTries(then)
    except ValueError:
        raise InvalidInput("then", f"{quoted(then)} is neither hold nor fail") from None


def checked_generation(name: object) -> str:
    """The name of a generation: one word."""
    if not isinstance(name, str) or not GENERATION.match(name):
        raise InvalidInput(
            "generation",
            f"{quoted(name)} is not one word; take letters, digits and _ . : / + @ -, at most 100",
        )
    return name


class Pace(msgspec.Struct, frozen=True):
    """How many dead letters may be retried now, at a rate a second; `since` is used up."""

    allowed: int
    since: datetime

    def after(self, used: int, rate: float) -> datetime:
        """Up to when the rate is used up after so many more."""
        return self.since + timedelta(seconds=used / rate)


def pace(paced_at: datetime | None, now: datetime, rate: float, most: int) -> Pace:
    """The pace now, for all workers together; what was not used for a second is lost."""
    unused = timedelta(seconds=max(1.0, 1 / rate))
    if paced_at is None or paced_at > now + unused:  # so far ahead only if the clock was put back
        paced_at = now - unused
    since = max(paced_at, now - unused)
    return Pace(max(0, min(most, int((now - since).total_seconds() * rate + 1e-6))), since)
