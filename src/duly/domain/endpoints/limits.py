"""Limits that are declared for a target: checks, and how far they are used."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from duly.domain.checks import checked_name
from duly.domain.endpoints.gates import BURST_SECONDS
from duly.errors import InvalidInput, quoted, shown_number
from duly.records.limit import Limit, LimitKey, PerKey

LEAST_RATE, MOST_RATE = 0.001, 100_000.0
MOST_IN_FLIGHT = 10_000


class DeclaredLimits(msgspec.Struct, frozen=True):
    """The limits of one target; None for none."""

    rate: float | None = None
    in_flight: int | None = None
    per_key: PerKey | None = None

    @property
    def is_none(self) -> bool:
        """Whether there is no limit at all."""
        return self == NO_LIMITS


NO_LIMITS = DeclaredLimits()


class KeyLimits(msgspec.Struct, frozen=True):
    """The limits for each key of one target; None for none."""

    name: str
    rate: float | None = None
    in_flight: int | None = None


class StoredLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a target as they are stored; the time if code declared them."""

    target: int
    namespace: str
    name: str
    limits: DeclaredLimits
    declared_at: datetime | None = None
    paced_at: datetime | None = None
    """Up to when the rate is used up."""

    @property
    def key_limits(self) -> KeyLimits | None:
        """The limits for each key."""
        found = self.limits.per_key
        return None if found is None else KeyLimits(found.name, found.rate, found.in_flight)


class LimitUse(msgspec.Struct, frozen=True):
    """How many deliveries of a target run, and how many are due and wait."""

    in_flight: int = 0
    waiting: int = 0


def per(name: str, *, in_flight: int | None = None, rate: float | None = None) -> PerKey:
    """Limits for each key: `limits=duly.per("customer", in_flight=2)` of a handler or endpoint.

    `name` says what the key means. Each key may have `in_flight` deliveries running at once,
    and may start `rate` a second.
    """
    return _checked_per_key(PerKey(name, in_flight, rate), "")


def checked_per_key(value: object) -> PerKey | None:
    """The checked limits for each key, given as `limits=`."""
    if value is None:
        return None
    if not isinstance(value, PerKey):
        raise InvalidInput("limits", f'{quoted(value)} is not duly.per("customer", in_flight=2)')
    return _checked_per_key(value, "limits.")


def _checked_per_key(value: PerKey, prefix: str) -> PerKey:
    name = checked_name(f"{prefix}name", value.name)
    in_flight = checked_in_flight(value.in_flight, f"{prefix}in_flight")
    rate = checked_rate(value.rate, f"{prefix}rate")
    if in_flight is None and rate is None:
        raise InvalidInput(prefix.rstrip(".") or "per", "give it in_flight, rate, or both")
    return PerKey(name, in_flight, rate)


def checked_rate(value: object, field: str = "rate") -> float | None:
    """A rate limit: deliveries a second."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not LEAST_RATE <= value <= MOST_RATE:  # type: ignore[operator]
        raise InvalidInput(
            field,
            f"{shown_number(value)} is not from {LEAST_RATE:g} to {MOST_RATE:g} "
            "deliveries a second",
        )
    return float(value)  # type: ignore[arg-type]


def checked_in_flight(value: object, field: str = "in_flight") -> int | None:
    """An in-flight limit: deliveries at once."""
    if value is None:
        return None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or not 1 <= value <= MOST_IN_FLIGHT:  # type: ignore[operator]
        raise InvalidInput(field, f"{quoted(value)} is not a whole number from 1 to 10000")
    return value  # type: ignore[return-value]


def checked_limits(rate: object, in_flight: object, limits: object) -> DeclaredLimits:
    """The checked limits of a handler."""
    return DeclaredLimits(checked_rate(rate), checked_in_flight(in_flight), checked_per_key(limits))


def next_start(found: StoredLimits, now: datetime) -> datetime | None:
    """When the rate lets the next delivery start; None if it may start now."""
    if found.limits.rate is None or found.paced_at is None:
        return None
    starts_at = found.paced_at + timedelta(seconds=1 / found.limits.rate + BURST_SECONDS)
    return starts_at if starts_at > now else None


def limit_record(found: StoredLimits, use: LimitUse, now: datetime) -> Limit:
    """The record of a target's limits."""
    limits = found.limits
    return Limit(
        target=found.name,
        rate=limits.rate,
        in_flight=limits.in_flight,
        per_key=limits.per_key,
        in_flight_now=use.in_flight,
        waiting=use.waiting,
        next_at=next_start(found, now),
        declared_at=found.declared_at,
    )


def why_limited(limit: Limit) -> str | None:
    """What a due delivery of the target waits for; None if no limit holds it."""
    if limit.in_flight is not None and limit.in_flight_now >= limit.in_flight:
        return f"limit {limit.target}, {limit.in_flight_now} of {limit.in_flight} in flight"
    if limit.rate is not None and limit.next_at is not None:
        return (
            f"limit {limit.target}, {limit.rate:g} a second; the next may start at "
            f"{_shown(limit.next_at)}"
        )
    return None


class KeyUse(msgspec.Struct, frozen=True):
    """How far the limits of one key are used."""

    key: str
    held: int = 0
    paced_at: datetime | None = None
    waiting: int = 0


def key_record(use: KeyUse, limits: KeyLimits, now: datetime) -> LimitKey:
    """The record of one limit key."""
    next_at = None
    if limits.rate is not None and use.paced_at is not None:
        next_at = use.paced_at + timedelta(seconds=1 / limits.rate)
    return LimitKey(
        key=use.key,
        in_flight_now=use.held,
        waiting=use.waiting,
        next_at=next_at if next_at is not None and next_at > now else None,
    )


def why_key_limited(key: LimitKey, limits: KeyLimits) -> str | None:
    """What a due delivery with the key waits for; None if no limit of the key holds it."""
    if limits.in_flight is not None and key.in_flight_now >= limits.in_flight:
        return f"limit {key.key}, {key.in_flight_now} of {limits.in_flight} in flight"
    if limits.rate is not None and key.next_at is not None:
        rate = f"{limits.rate:g} a second"
        return f"limit {key.key}, {rate}; the next may start at {_shown(key.next_at)}"
    return None


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")
