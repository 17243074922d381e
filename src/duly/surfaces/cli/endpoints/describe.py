"""How an endpoint stands, as people read it. Its secrets are not in it."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.endpoints.endpoint import Sealed, StoredEndpoint, still_used
from duly.domain.endpoints.gates import Gate
from duly.records.endpoint import Circuit, EndpointState
from duly.records.target import shown_headers
from duly.safe_text import shown_url
from duly.services.endpoints import Standing
from duly.surfaces.cli.terminal.output import cell, facts, table
from duly.surfaces.cli.terminal.retry_plans import plan_in_words
from duly.surfaces.cli.terminal.times import spelled
from duly.surfaces.standing import on_the_books

PLAIN = "nothing: it is stored plain"


def state_in_words(endpoint: StoredEndpoint) -> str:
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
                *on_the_books(each.waiting).values(),
                shown_url(each.endpoint.details.url),
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
        "url": f"{details.method} {shown_url(details.url)}",
        "headers": headers,
        "timeout": spelled(details.timeout),
        "rate": _rate(details.rate) or "any",
        "in_flight": details.in_flight or "any number",
        "retry": plan_in_words(found.plan),
        "state": endpoint.state,
        "since": endpoint.state_at,
        "reason": endpoint.state_reason,
        "circuit": _circuit_in_words(endpoint.gate),
        **on_the_books(found.waiting),
        "created_at": endpoint.created_at,
        "version": endpoint.version,
        "secrets": found.problem and f"cannot be read here: {found.problem}",
    }
    tries = "\n".join(f"try: {each}" for each in next_commands(endpoint))
    parts = [facts(told), _secrets(still_used(endpoint.secrets, found.now)), tries]
    return "\n\n".join(filter(None, parts))


def next_commands(endpoint: StoredEndpoint) -> list[str]:
    """What is worth trying while its deliveries do not go out."""
    if endpoint.state is EndpointState.PAUSED:
        return [f"duly endpoints resume {endpoint.name}"]
    if endpoint.state is EndpointState.DISABLED or endpoint.gate.circuit is not Circuit.CLOSED:
        return [f"duly endpoints {verb} {endpoint.name}" for verb in ("test", "resume")]
    return []


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
        folds=("sealed with",),
    )
