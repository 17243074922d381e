"""The gate before a target, shared by all workers: its circuit, its rate, and how many at once.

A **circuit** opens after repeated failures: deliveries then wait without spending attempts, one
at a time is let through as a probe, and a success closes it again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from duly.domain.deliveries.failures import Reason

OPENS_AFTER = 5
FIRST_REST, LONGEST_REST = timedelta(seconds=10), timedelta(minutes=5)
PROBE_TAKES = timedelta(seconds=75)
"""Longer than any attempt: if its worker died, another probe may go."""
GIVES_UP_AFTER = timedelta(days=5)
BURST_SECONDS = 0.1
"""How late a worker may be without losing what the rate would have let through."""
AGAIN = timedelta(seconds=0.25)

COUNTED = {
    True: frozenset(
        {Reason.DEPENDENCY_FAILURE, Reason.TRANSPORT_UNAVAILABLE, Reason.TIMEOUT_EXCEEDED}
    ),
    False: frozenset({Reason.DEPENDENCY_FAILURE}),
}
"""Which failures speak against the target itself: of a webhook (True), of a handler (False)."""


class Circuit(StrEnum):
    """Whether deliveries pass."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What all workers know of one target; `paced_at` is up to when its rate is used up."""

    failures: int = 0
    first_failed_at: datetime | None = None
    opened_at: datetime | None = None
    probe_at: datetime | None = None
    probing: bool = False
    probes: int = 0
    paced_at: datetime | None = None

    @property
    def circuit(self) -> Circuit:
        """How its circuit stands."""
        if self.opened_at is None:
            return Circuit.CLOSED
        return Circuit.PROBING if self.probing else Circuit.OPEN


class TargetLimits(msgspec.Struct, frozen=True):
    """At most so many a second, and so many at once; None for any number."""

    rate: float | None = None
    in_flight: int | None = None


class Pass(msgspec.Struct, frozen=True):
    """How many deliveries may go now, and when it is worth asking again."""

    many: int
    again_at: datetime | None = None


def admit(
    gate: Gate, limits: TargetLimits, wanted: int, here: int, elsewhere: int, now: datetime
) -> tuple[Gate, Pass]:
    """Let as many through as circuit, rate and limit allow.

    `here` are in flight from the worker that asks, `elsewhere` from all others.
    """
    if gate.opened_at is not None:
        return _probe(gate, now)
    most = wanted
    if limits.in_flight is not None:
        most = min(most, limits.in_flight - here - elsewhere)
        if most <= 0:
            # One of ours that ends wakes us; of the others nobody tells.
            return gate, Pass(0, now + AGAIN)
    if limits.rate is None:
        return gate, Pass(most)
    return _paced(gate, limits.rate, most, now)


def _probe(gate: Gate, now: datetime) -> tuple[Gate, Pass]:
    if gate.probe_at is not None and gate.probe_at > now:
        return gate, Pass(0, gate.probe_at)
    until = now + PROBE_TAKES
    return msgspec.structs.replace(gate, probing=True, probe_at=until), Pass(1, until)


def _paced(gate: Gate, rate: float, most: int, now: datetime) -> tuple[Gate, Pass]:
    """Each delivery uses up 1/rate seconds of a line that runs at most a moment behind now."""
    interval = 1 / rate
    burst = 1.0 + rate * BURST_SECONDS
    begins = now - timedelta(seconds=burst * interval)
    used_up = max(gate.paced_at or now - timedelta(seconds=interval), begins)
    # Rounding must not cost a delivery that is due to the microsecond.
    free = int((now - used_up).total_seconds() * rate + 1e-6)
    # Whoever waited for the gate may come with an earlier moment than the one before.
    many = max(0, min(most, free))
    used_up += timedelta(seconds=many * interval)
    worth_it = timedelta(seconds=max(1.0, burst / 2) * interval)
    return msgspec.structs.replace(gate, paced_at=used_up), Pass(many, used_up + worth_it)


def failed(gate: Gate, times: int, now: datetime) -> Gate:
    """So many attempts failed, the last one now, and none succeeded since."""
    failures, since = gate.failures + times, gate.first_failed_at or now
    gate = msgspec.structs.replace(gate, failures=failures, first_failed_at=since)
    if gate.opened_at is None:
        if failures < OPENS_AFTER:
            return gate
        return msgspec.structs.replace(gate, opened_at=now, probe_at=now + FIRST_REST)
    if not gate.probing:
        return gate
    rest = min(FIRST_REST * 2 ** min(gate.probes + 1, 20), LONGEST_REST)
    return msgspec.structs.replace(gate, probing=False, probes=gate.probes + 1, probe_at=now + rest)


def succeeded(gate: Gate) -> Gate:
    """The target answered: whatever was held against it is forgotten."""
    return Gate(paced_at=gate.paced_at)


def unclear(gate: Gate, now: datetime, rest: timedelta) -> Gate:
    """A probe ended, or never began, and told nothing of the target: another may go."""
    return (
        msgspec.structs.replace(gate, probing=False, probe_at=now + rest) if gate.probing else gate
    )


def is_given_up(gate: Gate, now: datetime) -> bool:
    """Whether nothing but failures came of it for so long that nobody should go on trying."""
    if gate.first_failed_at is None or gate.failures < OPENS_AFTER:
        return False
    return now - gate.first_failed_at >= GIVES_UP_AFTER
