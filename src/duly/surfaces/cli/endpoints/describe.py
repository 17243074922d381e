"""Endpoints as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from duly.records.endpoint import (
    Circuit,
    CircuitStatus,
    Endpoint,
    EndpointOptions,
    EndpointState,
    SecretStatus,
)
from duly.surfaces.cli.limits import per_key_in_words
from duly.surfaces.cli.terminal.output import cell, facts, table
from duly.surfaces.cli.terminal.retry_plans import plan_in_words
from duly.surfaces.cli.terminal.times import spelled

PLAIN = "nothing: it is stored plain"


def state_in_words(endpoint: Endpoint) -> str:
    """Its state, and its circuit's unless that is closed."""
    circuit = endpoint.circuit.state
    return endpoint.state if circuit is Circuit.CLOSED else f"{endpoint.state}, circuit {circuit}"


def listed(found: Sequence[Endpoint]) -> str:
    """Endpoints as a table."""
    return table(
        ("name", "state", "rate", "in flight", "waiting", "under way", "url"),
        (
            (
                each.name,
                state_in_words(each),
                _rate(each.rate),
                each.in_flight,
                each.waiting,
                each.under_way,
                each.url,
            )
            for each in found
        ),
    )


def shown(endpoint: Endpoint) -> str:
    """All of an endpoint, and which commands to try."""
    problem = endpoint.secrets_problem
    found: dict[str, object] = {"name": endpoint.name, "description": endpoint.description}
    found |= {name: getattr(endpoint, name) for name in EndpointOptions.__struct_fields__}
    found |= {
        "url": f"{endpoint.method} {endpoint.url}",
        "method": None,
        "headers": [f"{name}: {value}" for name, value in endpoint.headers.items()],
        "timeout": spelled(endpoint.timeout),
        "rate": _rate(endpoint.rate) or "any",
        "in_flight": endpoint.in_flight or "any number",
        "limits": per_key_in_words(endpoint.limits),
        "retry": plan_in_words(endpoint.retry),
        "state": endpoint.state,
        "since": endpoint.state_at,
        "reason": endpoint.state_reason,
        "circuit": _circuit_in_words(endpoint.circuit),
        "waiting": endpoint.waiting,
        "under_way": endpoint.under_way,
        "created_at": endpoint.created_at,
        "version": endpoint.version,
        "secrets": problem and f"cannot be read here: {problem}",
    }
    tries = "\n".join(f"try: {each}" for each in next_commands(endpoint))
    return "\n\n".join(filter(None, [facts(found), _secrets(endpoint.secrets), tries]))


def next_commands(endpoint: Endpoint) -> list[str]:
    """Commands to try while its deliveries are not sent."""
    if endpoint.state is EndpointState.PAUSED:
        return [f"duly endpoints resume {endpoint.name}"]
    if endpoint.state is EndpointState.DISABLED or endpoint.circuit.state is not Circuit.CLOSED:
        return [f"duly endpoints {verb} {endpoint.name}" for verb in ("test", "resume")]
    return []


def _rate(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:g} a second"


def _circuit_in_words(circuit: CircuitStatus) -> str:
    failing = f"{circuit.failures} failures in a row since {cell(circuit.failing_since)}"
    if circuit.state is Circuit.CLOSED:
        return f"{circuit.state}, {failing}" if circuit.failures else circuit.state
    probe = "a probe is under way"
    if circuit.state is Circuit.OPEN:
        probe = f"the next probe is at {cell(circuit.probe_at)}"
    return f"{circuit.state} since {cell(circuit.opened_at)}: {failing}; {probe}"


def _secrets(found: Sequence[SecretStatus]) -> str:
    return table(
        ("secret", "signs until", "sealed with"),
        (
            (
                "the present one" if each.signs_until is None else "an old one",
                each.signs_until or "it is rotated",
                PLAIN if each.sealed_with is None else f"key {each.sealed_with}",
            )
            for each in found
        ),
        folds=("sealed with",),
    )
