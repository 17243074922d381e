"""Endpoints as values: why their deliveries wait, and that their secrets are never shown."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.domain.endpoints.endpoint import Details, Sealed, StoredEndpoint, why_shut, why_waiting
from duly.domain.endpoints.gates import Gate
from duly.domain.endpoints.webhooks import webhook
from duly.records.endpoint import EndpointState, NewEndpoint
from duly.records.target import shown_headers
from duly.settings import load

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=10)
URL = "https://example.org/hook"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def billing(**changes: Any) -> StoredEndpoint:
    facts: dict[str, Any] = {
        "name": "billing",
        "target": 1,
        "details": Details(url=URL, headers={"Authorization": "Bearer hunter2"}),
        "state_at": NOW,
        "created_at": NOW,
        "version": 1,
        "secrets": (Sealed(SECRET),),
    }
    return StoredEndpoint(**facts | changes)


@pytest.mark.requirement("C8")
def test_deliveries_to_an_active_endpoint_do_not_wait() -> None:
    assert why_shut("billing", billing()) is None
    assert why_waiting("billing", billing()) is None


@pytest.mark.requirement("C8")
def test_a_paused_endpoint_has_since_when_and_how_to_resume_it() -> None:
    paused = billing(state=EndpointState.PAUSED, state_reason="holidays")
    reason = "endpoint billing is paused since 2026-03-01 12:00:00Z (holidays); "
    assert why_shut("billing", paused) == reason + "duly endpoints resume billing"
    silent = billing(state=EndpointState.DISABLED)
    assert "disabled since 2026-03-01 12:00:00Z; duly" in str(why_shut("billing", silent))
    assert why_waiting("billing", paused) == why_shut("billing", paused)
    assert "no longer exists" in str(why_waiting("billing", None))


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(("probing", "when"), [(False, "at 2026-03-01 12:00:10Z"), (True, "now")])
def test_an_open_circuit_has_the_time_of_its_next_probe(probing: bool, when: str) -> None:
    gate = Gate(failures=7, first_failed_at=NOW, opened_at=NOW, probe_at=LATER, probing=probing)
    opened = billing(gate=gate)
    assert why_shut("billing", opened) is None
    assert why_waiting("billing", opened) == (
        "endpoint billing failed 7 times in a row since 2026-03-01 12:00:00Z, so its circuit is "
        f"open; one delivery tries it {when}"
    )


@pytest.mark.requirement("C6")
def test_headers_that_look_like_credentials_are_hidden() -> None:
    hidden = (
        *("Authorization", "proxy-authorization", "Cookie", "X-Api-Key", "x-auth", "APIKEY"),
        *("X-Access-Token", "client-SECRET", "X-Password", "X-Hub-Signature"),
    )
    assert set(shown_headers(dict.fromkeys(hidden, "hunter2")).values()) == {"***"}
    assert shown_headers({"X-Team": "7", "Accept": "a"}) == {"X-Team": "7", "Accept": "a"}


@pytest.mark.requirement("C6")
def test_the_repr_of_an_endpoint_has_no_secret() -> None:
    environment = {"DULY_SECRET_KEY": SECRET, "DULY_DATABASE": "postgresql://me:hunter2@host/x"}
    for value in (
        billing(),
        billing().details,
        NewEndpoint(url=URL, name="billing", secret=SECRET),
        webhook(URL, headers={"X-Token": "hunter2"}),
        load({}, environment),
    ):
        assert "hunter2" not in repr(value)
        assert SECRET.removeprefix("whsec_") not in repr(value)
