"""Generated requests to every operation, valid and invalid by the OpenAPI document.

DULY_TEST_EXAMPLES is the number of requests of each operation.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks

from duly.surfaces.http.application import API
from tests.http.filled_site import DEAD_END, FilledSite, filled_site
from tests.http.ports import document_of

EXAMPLES = int(os.environ.get("DULY_TEST_EXAMPLES", "8"))
RESOURCES = (
    *("alerts", "audit", "batches", "calendars", "dead-letters", "deliveries", "endpoints", "keys"),
    *("limits", "orphaned-schedules", "recovery", "schedules", "session", "stats", "status"),
    *("streams", "workers"),
)
ENDLESS = {"events"}
"""Event streams, which do not end."""
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
pytestmark = [
    pytest.mark.requirement("S2"),
    pytest.mark.timeout(60 + EXAMPLES),
    pytest.mark.long,
]


@pytest.mark.parametrize("resource", RESOURCES)
def test_no_request_fails_and_a_refused_one_stores_nothing(
    resource: str, database_url: str
) -> None:
    with filled_site(database_url, hook=DEAD_END, egress_allow="127.0.0.1") as found:
        asked = [send_all_kinds(found, each) for each in operations(found, resource)]
    print(f"{resource}: {len(asked)} operations, {sum(asked)} requests")
    assert sum(asked) >= len(asked) * EXAMPLES / 2


def test_every_resource_is_tested(sqlite_url: str) -> None:
    with filled_site(sqlite_url) as found:
        assert {path.split("/")[2] for path in document_of(found.site)["paths"]} == {
            *RESOURCES,
            *ENDLESS,
        }
    assert len(API) > 40


def operations(found: FilledSite, resource: str) -> Iterator[Any]:
    schema = schemathesis.openapi.from_dict(flat(document_of(found.site)))
    for each in schema.get_all_operations():
        if each.ok().path.split("/")[2] == resource:
            yield each.ok()


def flat(document: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document in a form that schemathesis can use fully.

    It cannot negate nested plans, and sends no keys where none are needed.
    """
    document["security"] = [{"key": []}]
    for name in ("Exponential", "Delays", "NoRetry"):
        document["components"]["schemas"][name]["properties"]["rules"]["additionalProperties"] = {
            "type": "object"
        }
    return document


def send_all_kinds(found: FilledSite, operation: Any) -> int:
    """Send valid and invalid requests for known and unknown names; returns their number."""
    places: list[dict[str, str] | None] = [None]
    if operation.path_parameters.items:
        places.append(found.names[operation.path.split("/")[2]])
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    share = max(1, EXAMPLES // len(places) // len(modes))
    return sum(
        send_generated(found, operation, share, generation_mode=mode, path_parameters=place)
        for mode in modes
        for place in places
    )


def send_generated(found: FilledSite, operation: Any, examples: int, **options: Any) -> int:
    asked = 0

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(**options))
    def send(case: Any) -> None:
        nonlocal asked
        asked += 1
        check(found, case)

    try:
        send()
    except Unsatisfiable:
        # An operation without input has no invalid requests.
        return 0
    return asked


def check(found: FilledSite, case: Any) -> None:
    sent = requests.Request(**case.as_transport_kwargs(base_url="http://127.0.0.1")).prepare()
    before = found.rows()
    answer = found.request(
        sent.method or "",
        sent.url or "",
        content=sent.body or b"",
        headers=[(on_the_wire(name), on_the_wire(value)) for name, value in sent.headers.items()],
    )
    details = schemathesis.Response(
        status_code=answer.status_code,
        headers={name: [value] for name, value in answer.headers.items()},
        content=answer.content,
        request=sent,
        elapsed=0.0,
        verify=False,
    )
    case.validate_response(details, checks=CHECKS)
    if answer.status_code >= 400:
        assert found.rows() == before, (sent.method, sent.url, sent.body, answer.text)


def on_the_wire(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")
