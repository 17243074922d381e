"""Records of endpoints, made from what is stored; secrets and credentials are left out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from duly.domain.deliveries.outcomes import Completed, Failed, Outcome
from duly.domain.endpoints.endpoint import StoredEndpoint, still_used
from duly.records.endpoint import CircuitStatus, Endpoint, EndpointTest, SecretStatus
from duly.records.retry_plan import RetryPlan
from duly.records.target import shown_headers
from duly.safe_text import shown_url

NOT_SENT = "nothing left this machine: it has no route, no sockets, or no resolver"


def endpoint_record(
    found: StoredEndpoint,
    headers: Mapping[str, str],
    plan: RetryPlan,
    problem: str | None,
    counts: tuple[int, int],
    now: datetime,
) -> Endpoint:
    """The record of an endpoint with its opened headers, its plan in force, and its counts.

    `counts` has the deliveries that wait and those under way; `problem` is why its secrets cannot
    be read.
    """
    gate, (waiting, under_way) = found.gate, counts
    options = msgspec.structs.asdict(found.details)
    options |= {"url": shown_url(found.details.url), "headers": shown_headers(headers)}
    return Endpoint(
        **options | {"retry": plan},
        name=found.name,
        state=found.state,
        state_reason=found.state_reason,
        state_at=found.state_at,
        circuit=CircuitStatus(
            state=gate.circuit,
            failures=gate.failures,
            failing_since=gate.first_failed_at,
            opened_at=gate.opened_at,
            probe_at=gate.probe_at,
        ),
        waiting=waiting,
        under_way=under_way,
        secrets=[
            SecretStatus(sealed_with=each.key, signs_until=each.until)
            for each in still_used(found.secrets, now)
        ],
        secrets_problem=problem,
        created_at=found.created_at,
        version=found.version,
    )


def result_of_test(found: StoredEndpoint, outcome: Outcome) -> EndpointTest:
    """The result of a test request, made from the outcome of its attempt."""
    answer = getattr(outcome, "answer", None)
    result: dict[str, Any] = msgspec.json.decode(answer) if answer else {}
    if isinstance(outcome, Failed):
        result |= {"reason": outcome.reason, "error": outcome.error}
    elif not isinstance(outcome, Completed):
        result |= {"reason": "not_sent", "error": NOT_SENT}
    url, ok = shown_url(found.details.url), isinstance(outcome, Completed)
    return EndpointTest(name=found.name, url=url, ok=ok, **result)
