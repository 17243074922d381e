"""The gate of a target, shared by all workers: its circuit, rate limit and in-flight limit.

A circuit opens after repeated failures. Deliveries then wait without spending attempts; one at a
time is admitted as a probe, and a success closes the circuit.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from duly.records.endpoint import Circuit
from duly.records.reason import Reason

OPENS_AFTER = 5
FIRST_REST, LONGEST_REST = timedelta(seconds=10), timedelta(minutes=5)
PROBE_TAKES = timedelta(seconds=75)
"""The lease of a probe, longer than any attempt: if its worker died, another probe follows."""
GIVES_UP_AFTER = timedelta(days=5)
BURST_SECONDS = 0.1
"""How much unused rate is kept, in seconds, so that a late worker does not lose it."""
AGAIN = timedelta(seconds=0.25)

COUNTED = {
    True: frozenset(
        {Reason.DEPENDENCY_FAILURE, Reason.TRANSPORT_UNAVAILABLE, Reason.TIMEOUT_EXCEEDED}
    ),
    False: frozenset({Reason.DEPENDENCY_FAILURE}),
}
"""The failures that count against the target: of a webhook (True), of a handler (False)."""


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """The shared state of one target; its rate is used up until `paced_at`."""

    failures: int = 0
    first_failed_at: datetime | None = None
    opened_at: datetime | None = None
    probe_at: datetime | None = None
    probing: bool = False
    probes: int = 0
    paced_at: datetime | None = None

    @property
    def circuit(self) -> Circuit:
        """The state of the circuit."""
        if self.opened_at is None:
            return Circuit.CLOSED
        return Circuit.PROBING if self.probing else Circuit.OPEN


class TargetLimits(msgspec.Struct, frozen=True):
    """Deliveries per second, and in flight at once; None for no limit."""

    rate: float | None = None
    in_flight: int | None = None


class Pass(msgspec.Struct, frozen=True):
    """How many deliveries are admitted now, and when to ask again."""

    many: int
    again_at: datetime | None = None


def admit(
    gate: Gate, limits: TargetLimits, wanted: int, here: int, elsewhere: int, now: datetime
) -> tuple[Gate, Pass]:
    """Admit as many deliveries as circuit, rate and in-flight limit allow.

    `here` are in flight on the asking worker, `elsewhere` on all others.
    """
    if gate.opened_at is not None:
        return _probe(gate, now)
    most = wanted
    if limits.in_flight is not None:
        most = min(most, limits.in_flight - here - elsewhere)
        if most <= 0:
            # A delivery that ends on this worker wakes it; those of other workers do not.
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
    """Each delivery moves `paced_at` forward by 1/rate seconds; it stays at most a burst behind."""
    interval = 1 / rate
    burst = 1.0 + rate * BURST_SECONDS
    earliest = now - timedelta(seconds=burst * interval)
    used_up = max(gate.paced_at or now - timedelta(seconds=interval), earliest)
    # The small addend keeps rounding from losing a delivery.
    free = int((now - used_up).total_seconds() * rate + 1e-6)
    # A worker that waited for the lock on the gate may have an earlier `now` than the last one.
    many = max(0, min(most, free))
    used_up += timedelta(seconds=many * interval)
    pause = timedelta(seconds=max(1.0, burst / 2) * interval)
    return msgspec.structs.replace(gate, paced_at=used_up), Pass(many, used_up + pause)


def failed(gate: Gate, times: int, now: datetime) -> Gate:
    """The gate after `times` failures in a row, the last one now."""
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
    """The gate after a success: failures and circuit are reset."""
    return Gate(paced_at=gate.paced_at)


def unclear(gate: Gate, now: datetime, rest: timedelta) -> Gate:
    """The gate after an inconclusive probe: the next one is admitted after `rest`."""
    return (
        msgspec.structs.replace(gate, probing=False, probe_at=now + rest) if gate.probing else gate
    )


def is_given_up(gate: Gate, now: datetime) -> bool:
    """Whether the target has failed for so long that the endpoint should be disabled."""
    if gate.first_failed_at is None or gate.failures < OPENS_AFTER:
        return False
    return now - gate.first_failed_at >= GIVES_UP_AFTER
