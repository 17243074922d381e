"""What is to be delivered, and where, as the API is told it."""

from __future__ import annotations

from typing import Any

import msgspec

from duly.client.problems import Missing
from duly.domain.checks import checked_name
from duly.domain.deliveries.payloads import payload_bytes
from duly.errors import InvalidInput
from duly.records.target import EndpointTarget, Target, Webhook

LARGEST_PAYLOAD = 1_048_576
"""What a server may be set to take at most; it says itself what it is set to."""


def contents(payload: Any) -> msgspec.Raw:
    """A payload as the JSON that it is, or will be."""
    return msgspec.Raw(payload_bytes(payload, LARGEST_PAYLOAD))


def destination(target: Target) -> str | dict[str, Any]:
    """A handler's name, or a document that says which webhook."""
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
    return checked_name("target", target)


def refusal(target: Target, error: InvalidInput) -> Exception:
    """The refusal of a target: of an endpoint whose name is one, that there is none."""
    missing = isinstance(target, EndpointTarget) and error.field == "target"
    return Missing(error.problem) if missing else error
