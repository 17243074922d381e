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
LONGEST_AHEAD = timedelta(seconds=10)
"""A rate that is used up for longer than this was stored before the clock was set back."""
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


NO_LIMITS = TargetLimits()


class Pace(msgspec.Struct, frozen=True):
    """When admitted deliveries start: the first after `first_in` seconds, the others behind it."""

    first_in: float
    interval: float
    """Seconds between two of them."""


class Pass(msgspec.Struct, frozen=True):
    """How many deliveries are admitted now, when they start, and when to ask again."""

    many: int
    again_at: datetime | None = None
    pace: Pace | None = None
    """None if they all start at once."""


def admit(
    gate: Gate, limits: TargetLimits, wanted: int, here: int, elsewhere: int, now: datetime
) -> tuple[Gate, Pass]:
    """Admit as many deliveries as circuit, rate and in-flight limit allow.

    `here` are in flight on the asking worker, `elsewhere` on all others.
    """
    if gate.opened_at is not None:
        return _probe(gate, now)
    most, again_at = wanted, None
    if limits.in_flight is not None:
        most = max(0, min(most, limits.in_flight - here - elsewhere))
        if most < wanted:
            # A delivery that ends on this worker wakes it; those of other workers do not.
            again_at = now + AGAIN
    if limits.rate is None or not most:
        return gate, Pass(most, again_at)
    return _paced(gate, limits.rate, most, now)


def _probe(gate: Gate, now: datetime) -> tuple[Gate, Pass]:
    if gate.probe_at is not None and gate.probe_at > now:
        return gate, Pass(0, gate.probe_at)
    until = now + PROBE_TAKES
    return msgspec.structs.replace(gate, probing=True, probe_at=until), Pass(1, until)


def _paced(gate: Gate, rate: float, most: int, now: datetime) -> tuple[Gate, Pass]:
    """Each delivery moves `paced_at` forward by 1/rate seconds; it stays at most a burst behind.

    A delivery starts BURST_SECONDS after its place in the sequence, and at once if that has
    passed. So deliveries start evenly, however late and in which order the workers ask.
    """
    many, used_up = room_for(rate, gate.paced_at, most, now)
    first_in = (used_up - now).total_seconds() + 1 / rate + BURST_SECONDS
    used_up += timedelta(seconds=many / rate)
    pause = timedelta(seconds=max(1.0, _burst(rate) / 2) / rate)
    pace = Pace(max(0.0, first_in), 1 / rate) if many else None
    return msgspec.structs.replace(gate, paced_at=used_up), Pass(many, used_up + pause, pace)


def room_for(
    rate: float, paced_at: datetime | None, most: int, now: datetime
) -> tuple[int, datetime]:
    """How many deliveries the rate allows now, and the moment up to which it is used up."""
    earliest = now - timedelta(seconds=_burst(rate) / rate)
    used_up = max(paced_at or earliest, earliest)
    if used_up > now + LONGEST_AHEAD:
        used_up = now
    # The small addend keeps rounding from losing a delivery.
    free = int((now - used_up).total_seconds() * rate + 1e-6)
    # A worker that waited for the lock on the gate may have an earlier `now` than the last one.
    return max(0, min(most, free)), used_up


def _burst(rate: float) -> float:
    return 1.0 + rate * BURST_SECONDS


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
