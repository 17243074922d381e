"""How an endpoint stands: as a document, and as people read it. Its secrets are in neither."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from duly.app import App
from duly.domain import retry
from duly.domain.endpoints import Endpoint, EndpointState, Sealed, still_used
from duly.domain.gates import Circuit, Gate
from duly.domain.webhooks import shown_headers
from duly.ports import Waiting
from duly.surfaces.cli.plans import plan_in_words
from duly.surfaces.cli.render import cell, facts, fields, table
from duly.surfaces.cli.times import spelled

PLAIN = "nothing: it is stored plain"


class Standing(msgspec.Struct, frozen=True):
    """An endpoint at one moment, with what is on the books for it."""

    endpoint: Endpoint
    now: datetime
    waiting: Waiting
    problem: str | None = None
    """Why its secrets cannot be read with the keys that are configured here."""


async def standing(app: App, endpoint: Endpoint) -> Standing:
    """How it stands now."""
    waiting = await app.store.endpoints.waiting(endpoint.target)
    return Standing(endpoint, app.clock.now(), waiting, app.endpoints.problem(endpoint))


def record(found: Standing) -> dict[str, Any]:
    """All of it as a document."""
    endpoint, details = found.endpoint, found.endpoint.details
    return {
        "name": endpoint.name,
        **fields(
            details,
            headers=shown_headers(details.headers),
            retry=msgspec.Raw(retry.encode(plan_of(endpoint)).encode()),
        ),
        "state": endpoint.state,
        "state_reason": endpoint.state_reason,
        "state_at": endpoint.state_at,
        "circuit": _circuit(endpoint.gate),
        **_on_the_books(found.waiting),
        "secrets": [_secret(each) for each in still_used(endpoint.secrets, found.now)],
        "secrets_problem": found.problem,
        "created_at": endpoint.created_at,
        "version": endpoint.version,
        "try": next_commands(endpoint),
    }


def plan_of(endpoint: Endpoint) -> retry.RetryPlan:
    """How its deliveries are tried again, unless one has a plan of its own."""
    stored = endpoint.details.retry
    return retry.WEBHOOK if stored is None else retry.decode(stored)


def _circuit(gate: Gate) -> dict[str, Any]:
    return {
        "state": gate.circuit,
        "failures": gate.failures,
        "failing_since": gate.first_failed_at,
        "opened_at": gate.opened_at,
        "probe_at": gate.probe_at,
    }


def _on_the_books(found: Waiting) -> dict[str, int]:
    """What waits here and what is under way, each counted once."""
    return {"waiting": found.waiting - found.under_way, "under_way": found.under_way}


def _secret(sealed: Sealed) -> dict[str, Any]:
    return {"sealed_with": sealed.key, "signs_until": sealed.until}


def next_commands(endpoint: Endpoint) -> list[str]:
    """What is worth trying while its deliveries do not go out."""
    if endpoint.state is EndpointState.PAUSED:
        return [f"duly endpoints resume {endpoint.name}"]
    if endpoint.state is EndpointState.DISABLED or endpoint.gate.circuit is not Circuit.CLOSED:
        return [f"duly endpoints {verb} {endpoint.name}" for verb in ("test", "resume")]
    return []


def state_in_words(endpoint: Endpoint) -> str:
    """Its state, and its circuit's unless that is closed."""
    circuit = endpoint.gate.circuit
    return endpoint.state if circuit is Circuit.CLOSED else f"{endpoint.state}, circuit {circuit}"


def listed(found: Sequence[Standing]) -> str:
    """Endpoints as a table."""
    return table(
        ("name", "state", "rate", "in flight", "waiting", "under way", "url"),
        (
            (
                each.endpoint.name,
                state_in_words(each.endpoint),
                _rate(each.endpoint.details.rate),
                each.endpoint.details.in_flight,
                *_on_the_books(each.waiting).values(),
                each.endpoint.details.url,
            )
            for each in found
        ),
    )


def shown(found: Standing) -> str:
    """All of it for people."""
    endpoint, details = found.endpoint, found.endpoint.details
    headers = [f"{name}: {value}" for name, value in shown_headers(details.headers).items()]
    told = {
        "name": endpoint.name,
        "description": details.description,
        "url": f"{details.method} {details.url}",
        "headers": headers,
        "timeout": spelled(details.timeout),
        "rate": _rate(details.rate) or "any",
        "in_flight": details.in_flight or "any number",
        "retry": plan_in_words(plan_of(endpoint)),
        "state": endpoint.state,
        "since": endpoint.state_at,
        "reason": endpoint.state_reason,
        "circuit": _circuit_in_words(endpoint.gate),
        **_on_the_books(found.waiting),
        "created_at": endpoint.created_at,
        "version": endpoint.version,
        "secrets": found.problem and f"cannot be read here: {found.problem}",
    }
    tries = "\n".join(f"try: {each}" for each in next_commands(endpoint))
    parts = [facts(told), _secrets(still_used(endpoint.secrets, found.now)), tries]
    return "\n\n".join(filter(None, parts))


def _rate(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:g} a second"


def _circuit_in_words(gate: Gate) -> str:
    failing = f"{gate.failures} failures in a row since {cell(gate.first_failed_at)}"
    if gate.circuit is Circuit.CLOSED:
        return f"{gate.circuit}, {failing}" if gate.failures else gate.circuit
    probe = "a probe is under way"
    if gate.circuit is Circuit.OPEN:
        probe = f"the next probe is at {cell(gate.probe_at)}"
    return f"{gate.circuit} since {cell(gate.opened_at)}: {failing}; {probe}"


def _secrets(found: Sequence[Sealed]) -> str:
    return table(
        ("secret", "signs until", "sealed with"),
        (
            (
                "the present one" if each.until is None else "an old one",
                each.until or "it is rotated",
                PLAIN if each.key is None else f"key {each.key}",
            )
            for each in found
        ),
    )
