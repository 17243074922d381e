"""Payloads and targets in the form that the API takes."""

from __future__ import annotations

from typing import Any

import msgspec

from duly.client.problems import Missing
from duly.domain.checks import checked_handler
from duly.domain.deliveries.payloads import payload_bytes
from duly.errors import InvalidInput
from duly.records.target import EndpointTarget, Target, Webhook

LARGEST_PAYLOAD = 1_048_576
"""The largest limit that a server can have; it checks its own."""


def contents(payload: Any) -> msgspec.Raw:
    """A payload as JSON."""
    return msgspec.Raw(payload_bytes(payload, LARGEST_PAYLOAD))


def destination(target: Target) -> str | dict[str, Any]:
    """The name of a handler, or a document that names the webhook or the endpoint."""
    match target:
        case Webhook():
            return {
                "url": target.url,
                "method": target.method,
                "headers": target.headers,
                "timeout": target.timeout,
            }
        case EndpointTarget():
            return {"endpoint": target.name}
    return checked_handler("target", target)


def refusal(target: Target, error: InvalidInput) -> Exception:
    """The error for a refused target; an unknown endpoint is NotFound, as in an App."""
    is_missing = isinstance(target, EndpointTarget) and error.field == "target"
    return Missing(error.problem) if is_missing else missing(error) or error


def missing(error: InvalidInput) -> Missing | None:
    """The NotFound of an App, if a body names an endpoint or a batch that does not exist."""
    starts = {"target": "no endpoint ", "batch": "no batch "}
    start = starts.get(error.field)
    return Missing(error.problem) if start and error.problem.startswith(start) else None
