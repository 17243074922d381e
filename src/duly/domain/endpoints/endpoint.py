"""Endpoints: named webhooks that can be edited, paused and limited while deliveries wait."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from duly.domain import checks
from duly.domain.deliveries.retry import encode_checked
from duly.domain.endpoints.gates import Gate
from duly.domain.endpoints.limits import checked_in_flight, checked_per_key, checked_rate
from duly.domain.endpoints.webhooks import (
    MOST_HEADERS,
    checked_headers,
    checked_method,
    checked_timeout,
    checked_url,
    is_webhook,
)
from duly.errors import InvalidInput, NotFound
from duly.records.endpoint import Circuit, Endpoint, EndpointOptions, EndpointState
from duly.records.retry_plan import RetryPlan
from duly.records.target import PREFIX, EndpointTarget, HandlerTarget, Webhook, origin_of

LONGEST_DESCRIPTION = 1000
UNKEPT = re.compile("[\\0\ud800-\udfff]")
"""Characters that a store cannot keep: NUL and surrogates."""
OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP = timedelta(days=30)
LONGEST_TEST = 262_144
"""Bytes of the payload of a test request."""


def endpoint(name: str) -> EndpointTarget:
    """A named endpoint as a target; each attempt uses the URL it has then."""
    return EndpointTarget(checks.checked_name("endpoint", name))


def endpoint_name(target: str) -> str | None:
    """The endpoint's name in a target; None if the target is a handler or a URL."""
    return target.removeprefix(PREFIX) if target.startswith(PREFIX) else None


def wanted_target(target: object) -> str:
    """The target of a filter, given as a handler or its name, an endpoint or a URL."""
    if isinstance(target, EndpointTarget):
        return target.target
    if isinstance(target, HandlerTarget):
        target = target.name
    if not isinstance(target, str):
        raise InvalidInput("target", f"{target!r} is not text")
    if is_webhook(target):
        return origin_of(checked_url(target))
    name = endpoint_name(target)
    return checks.checked_name("target", target) if name is None else endpoint(name).target


def is_outside(target: str) -> bool:
    """Whether a target is a webhook, given by URL or as an endpoint."""
    return is_webhook(target) or target.startswith(PREFIX)


class Sealed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored secret, encrypted with the key of that id; plain if there is no key."""

    text: str
    key: str | None = None
    until: datetime | None = None
    """When it is no longer used to sign, if a new secret has replaced it."""

    def __repr__(self) -> str:
        # Without a key the text is the secret itself, and a repr may appear in a log.
        return f"Sealed(key={self.key!r}, until={self.until!r})"


class Details(EndpointOptions, frozen=True, kw_only=True):
    """The options of an endpoint as they are stored."""

    # A plan that cannot be decoded must not make the endpoint unreadable.
    retry: str | None = None  # type: ignore[assignment]

    @property
    def webhook(self) -> Webhook:
        """The webhook that its deliveries are sent to."""
        return Webhook(self.url, self.method, self.headers, self.timeout)


class StoredEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint as it is stored."""

    name: str
    target: int
    details: Details
    state: EndpointState = EndpointState.ACTIVE
    state_reason: str | None = None
    state_at: datetime
    created_at: datetime
    version: int
    secrets: tuple[Sealed, ...] = ()
    gate: Gate = Gate()


def details(given: Mapping[str, Any], before: Details | None = None) -> Details:
    """The checked settings; fields that are not given keep their value of `before`."""
    known = Details.__struct_fields__
    if unknown := sorted(given.keys() - set(known)):
        raise InvalidInput(
            unknown[0], f"an endpoint has no such field; there are {', '.join(known)}"
        )
    if before is None and "url" not in given:
        raise InvalidInput("url", "an endpoint needs one")
    checked: dict[str, Any] = {name: CHECKS[name](value) for name, value in given.items()}
    return Details(**checked) if before is None else msgspec.structs.replace(before, **checked)


def changed_headers(before: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Headers with changes applied; None removes one. Names are compared without case.

    New values are checked; the others may be sealed and stay as they are.
    """
    known, changed = {each.lower() for each in before}, {each.lower() for each in changes}
    for name, value in changes.items():
        if value is None and name.lower() not in known:
            raise InvalidInput("header_changes", f"it has no header {name!r}")
    added = checked_headers({name: each for name, each in changes.items() if each is not None})
    if len(known - changed) + len(added) > MOST_HEADERS:
        raise InvalidInput("headers", f"an endpoint has at most {MOST_HEADERS} of them")
    return {name: value for name, value in before.items() if name.lower() not in changed} | added


def _description(value: object) -> str:
    is_text = isinstance(value, str) and not UNKEPT.search(value)
    if not is_text or len(value) > LONGEST_DESCRIPTION:  # type: ignore[arg-type]
        raise InvalidInput("description", f"give text of at most {LONGEST_DESCRIPTION} characters")
    return value  # type: ignore[return-value]


def _retry(value: RetryPlan | None) -> str | None:
    return None if value is None else encode_checked(value)


CHECKS: dict[str, Callable[[Any], object]] = {
    "url": checked_url,
    "description": _description,
    "method": checked_method,
    "headers": checked_headers,
    "timeout": checked_timeout,
    "rate": checked_rate,
    "in_flight": checked_in_flight,
    "limits": checked_per_key,
    "retry": _retry,
}


def still_used(secrets: tuple[Sealed, ...], now: datetime) -> tuple[Sealed, ...]:
    """The secrets used to sign now: the current one first, then replaced ones."""
    return tuple(each for each in secrets if each.until is None or each.until > now)


def rotated(
    secrets: tuple[Sealed, ...], new: Sealed, now: datetime, overlap: timedelta
) -> tuple[Sealed, ...]:
    """The secrets with the new one first; the others are used for at most `overlap` more."""
    ends = now + overlap
    old = [
        msgspec.structs.replace(each, until=min(each.until or ends, ends))
        for each in still_used(secrets, now)
    ]
    return (new, *(each for each in old if each.until is not None and each.until > now))


def no_endpoint(name: str) -> NotFound:
    """The error for an endpoint that does not exist."""
    return NotFound("endpoint", name, "duly endpoints list shows what there is")


def why_shut(name: str, found: StoredEndpoint | Endpoint | None) -> str | None:
    """Why its deliveries wait for an operator, and what to do; None if they do not."""
    if found is None:
        return f"endpoint {name} no longer exists; add it again: duly endpoints add {name} URL"
    if found.state is EndpointState.ACTIVE:
        return None
    reason = f" ({found.state_reason})" if found.state_reason else ""
    return (
        f"endpoint {name} is {found.state} since {_utc(found.state_at)}{reason}; "
        f"duly endpoints resume {name}"
    )


def why_waiting(name: str, found: StoredEndpoint | None) -> str | None:
    """Why its deliveries wait, for an operator or for the circuit; None if they do not."""
    if found is None or found.state is not EndpointState.ACTIVE:
        return why_shut(name, found)
    gate = found.gate
    if gate.circuit is Circuit.CLOSED:
        return None
    tries = "now" if gate.circuit is Circuit.PROBING else f"at {_utc(gate.probe_at)}"
    return (
        f"endpoint {name} failed {gate.failures} times in a row since "
        f"{_utc(gate.first_failed_at)}, so its circuit is open; one delivery tries it {tries}"
    )


def _utc(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
