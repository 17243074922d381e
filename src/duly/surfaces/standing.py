"""How an endpoint stands, as a document. Its secrets are not in it."""

from __future__ import annotations

from typing import Any

import msgspec

from duly.domain.deliveries import retry
from duly.domain.deliveries.outcomes import Completed, Failed, Outcome
from duly.domain.endpoints.endpoint import Sealed, StoredEndpoint, still_used
from duly.domain.endpoints.gates import Gate
from duly.ports import EndpointBacklog
from duly.records.target import shown_headers
from duly.safe_text import shown_url
from duly.services.endpoints import Standing

NOTHING_LEFT = "nothing left this machine: it has no route, no sockets, or no resolver"


def record(found: Standing) -> dict[str, Any]:
    """All of it as a document."""
    endpoint, details = found.endpoint, found.endpoint.details
    return {
        "name": endpoint.name,
        **msgspec.structs.asdict(details),
        "url": shown_url(details.url),
        "headers": shown_headers(details.headers),
        "retry": msgspec.Raw(retry.encode(found.plan).encode()),
        "state": endpoint.state,
        "state_reason": endpoint.state_reason,
        "state_at": endpoint.state_at,
        "circuit": _circuit(endpoint.gate),
        **on_the_books(found.waiting),
        "secrets": [_secret(each) for each in still_used(endpoint.secrets, found.now)],
        "secrets_problem": found.problem,
        "created_at": endpoint.created_at,
        "version": endpoint.version,
    }


def _circuit(gate: Gate) -> dict[str, Any]:
    return {
        "state": gate.circuit,
        "failures": gate.failures,
        "failing_since": gate.first_failed_at,
        "opened_at": gate.opened_at,
        "probe_at": gate.probe_at,
    }


def on_the_books(found: EndpointBacklog) -> dict[str, int]:
    """What waits here and what is under way, each counted once."""
    return {"waiting": found.waiting - found.under_way, "under_way": found.under_way}


def _secret(sealed: Sealed) -> dict[str, Any]:
    return {"sealed_with": sealed.key, "signs_until": sealed.until}


def tried(endpoint: StoredEndpoint, outcome: Outcome) -> dict[str, Any]:
    """What came of sending something there, as a document."""
    found = getattr(outcome, "answer", None)
    exchange: dict[str, Any] = {"status": None, "timing": {}, "excerpt": ""}
    exchange |= {"truncated": False, "note": ""}
    exchange |= msgspec.json.decode(found) if found else {}
    failure: dict[str, Any] = {"reason": None, "error": None}
    if isinstance(outcome, Failed):
        failure = {"reason": outcome.reason, "error": outcome.error}
    elif not isinstance(outcome, Completed):
        failure = {"reason": "not_sent", "error": NOTHING_LEFT}
    ok = isinstance(outcome, Completed)
    url = shown_url(endpoint.details.url)
    return {"name": endpoint.name, "url": url, "ok": ok, **exchange, **failure}
