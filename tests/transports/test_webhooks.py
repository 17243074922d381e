"""Webhooks over real sockets, to normal and hostile servers, on both stores."""

from __future__ import annotations

import gzip
import resource
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import App
from duly.domain.endpoints.signatures import check, secret_key
from duly.testing import run_until_idle
from tests.transports.receiver import Talk, answer, drips, pours, receiver, says
from tests.transports.sending import names_lead_to

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OK = b"HTTP/1.1 200 OK\r\n"
SELF_SIGNED = Path(__file__).parents[1] / "data" / "self_signed.pem"


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    async with App(
        database_url, egress_allow="127.0.0.1/32", webhook_secret=SECRET, environment={}
    ) as opened:
        yield opened


async def delivered(app: App, webhook: Any, payload: Any = None) -> tuple[Any, list[Any]]:
    """The delivery and its history after one round of attempts."""
    accepted = await app.deliver(webhook, payload, retry=duly.delays(3600))
    await run_until_idle(app)
    return await app.get(accepted.id), list(await app.attempts(accepted.id))


@pytest.mark.requirement("C5", "C6", "D9")
async def test_a_webhook_carries_the_accepted_bytes_signed_under_a_stable_id(app: App) -> None:
    async with receiver() as there:
        webhook = duly.webhook(there.url("/hook?a=1"), headers={"X-Team": "7"})
        delivery, history = await delivered(app, webhook, b'{ "spaced" : [1.0] }')
    (taken,) = there.taken
    assert taken.line == "POST /hook?a=1 HTTP/1.1"
    assert taken.body == b'{ "spaced" : [1.0] }'
    names = ("webhook-id", "idempotency-key", "x-idempotency-key")
    assert {taken.headers[each] for each in names} == {delivery.id}
    assert (taken.headers["webhook-attempt"], taken.headers["x-team"]) == ("1", "7")
    assert taken.headers["content-type"] == "application/json"
    known = check([secret_key(SECRET)], taken.headers, taken.body, datetime.now(UTC))
    assert known == delivery.id
    assert (delivery.state, delivery.url) == ("completed", there.url("/hook?a=…"))
    assert [(each.outcome, each.answer["status"]) for each in history] == [("completed", 204)]
    assert {"connect", "first_byte", "total"} <= history[0].answer["timing"].keys()


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        (200, "completed", None),
        (202, "completed", None),
        (301, "dead", "validation_failure"),
        (404, "dead", "validation_failure"),
        (410, "dead", "validation_failure"),
        (408, "pending", "dependency_failure"),
        (425, "pending", "dependency_failure"),
        (429, "pending", "dependency_failure"),
        (500, "pending", "dependency_failure"),
        (503, "pending", "dependency_failure"),
    ],
)
async def test_every_class_of_answer_has_its_state_and_reason(
    app: App, status: int, state: str, reason: str | None
) -> None:
    async with receiver(says(answer(status, b"because"))) as there:
        delivery, history = await delivered(app, duly.webhook(there.url()))
    assert (delivery.state, delivery.reason) == (state, reason)
    assert history[-1].answer["status"] == status
    assert history[-1].answer["excerpt"] == "because"


@pytest.mark.requirement("C5", "F2")
async def test_retry_after_can_only_delay_a_retry(app: App) -> None:
    waits = {}
    for header in ("7200", "1"):
        talk = says(answer(503, b"", f"Retry-After: {header}"))
        async with receiver(talk) as there:
            delivery, history = await delivered(app, duly.webhook(there.url()))
        wait = (delivery.next_at - history[-1].finished_at).total_seconds()
        waits[header] = round(wait / 60)
    assert waits == {"7200": 120, "1": 60}


BOMB = gzip.compress(b"0" * 50_000_000)
HOSTILE: dict[str, tuple[Talk, str, str | None]] = {
    "drips its body": (drips(OK + b"\r\n", b"x"), "completed", None),
    "drips its headers": (drips(OK, b"X-A: b\r\n"), "pending", "timeout_exceeded"),
    "drips its first line": (drips(b"HTTP/1.1 200 O", b"K"), "pending", "timeout_exceeded"),
    "says nothing": (drips(b"", b""), "pending", "timeout_exceeded"),
    "never stops": (pours(OK + b"\r\n"), "completed", None),
    "floods with headers": (
        says(OK, *(b"X-%d: %s\r\n" % (n, b"x" * 500) for n in range(5000)), b"\r\n"),
        "pending",
        "transport_unavailable",
    ),
    "has an endless header": (
        says(OK + b"X-A: " + b"x" * 1_000_000),
        "pending",
        "transport_unavailable",
    ),
    "hangs up at once": (says(), "pending", "transport_unavailable"),
    "hangs up in the body": (
        says(OK + b"Content-Length: 1000\r\n\r\nhalf"),
        "completed",
        None,
    ),
    "speaks another language": (says(b"SSH-2.0-x\r\n\r\n"), "pending", "transport_unavailable"),
    "lies about chunks": (
        says(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
        "completed",
        None,
    ),
    "sends a bomb": (
        says(OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n" + BOMB),
        "completed",
        None,
    ),
    "redirects to this host": (
        says(answer(302, b"", "Location: http://169.254.169.254/latest")),
        "dead",
        "validation_failure",
    ),
}


@pytest.mark.requirement("C5", "C7")
@pytest.mark.parametrize("server", HOSTILE)
async def test_a_hostile_server_does_no_harm(app: App, server: str) -> None:
    talk, state, reason = HOSTILE[server]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with receiver(talk) as there:
        delivery, history = await delivered(app, duly.webhook(there.url(), timeout=1))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert (delivery.state, delivery.reason) == (state, reason)
    assert there.connections == 1
    assert len((history[-1].answer or {}).get("excerpt", "")) <= 16 * 1024
    assert (history[-1].finished_at - history[-1].started_at).total_seconds() < 8
    assert grown < 30


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "localhost"])
async def test_a_guarded_address_is_refused_at_acceptance(database_url: str, host: str) -> None:
    async with App(database_url, environment={}) as app:
        with pytest.raises(duly.InvalidInput, match="not for the public"):
            await app.deliver(duly.webhook(f"http://{host}/"))
        assert await app.list() == []


@pytest.mark.requirement("C7")
async def test_a_name_with_a_guarded_address_gets_no_byte(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_lead_to(monkeypatch, "127.0.0.1")
    async with receiver() as there, App(database_url, environment={}) as app:
        url = f"http://rebound.example:{there.port}/"
        delivery, _ = await delivered(app, duly.webhook(url))
    assert there.connections == 0
    assert (delivery.state, delivery.reason) == ("dead", "validation_failure")
    assert "127.0.0.1 is not for the public" in delivery.error


@pytest.mark.requirement("C5")
async def test_a_wrong_certificate_is_never_accepted(app: App) -> None:
    async with receiver(certificate=SELF_SIGNED) as there:
        url = there.url().replace("http:", "https:")
        delivery, _ = await delivered(app, duly.webhook(url, timeout=2))
    assert (delivery.state, delivery.reason) == ("pending", "transport_unavailable")
    assert "certificate" in delivery.error
    assert there.taken == []


async def test_a_schedule_sends_webhooks_too(app: App) -> None:
    async with receiver() as there:
        await app.schedule(
            "ping", duly.at("2020-01-01T09:00", tz="Europe/Oslo"), duly.webhook(there.url())
        )
        await run_until_idle(app)
    (taken,) = there.taken
    assert taken.headers["webhook-scheduled-for"] == "2020-01-01T08:00:00+00:00"
    assert b'"schedule":"ping"' in taken.body


async def test_an_invalid_secret_is_an_invalid_setting_and_is_not_shown(database_url: str) -> None:
    with pytest.raises(duly.InvalidInput, match="webhook_secret") as caught:
        App(database_url, webhook_secret="hunter2", environment={})
    assert "hunter2" not in str(caught.value)


async def test_a_handler_cannot_be_named_like_a_url(app: App) -> None:
    with pytest.raises(duly.InvalidInput, match=r"duly\.webhook"):
        app.handler("https://example.org")(print)


@pytest.mark.requirement("C5", "D9")
async def test_a_known_key_with_another_url_is_a_conflict(app: App) -> None:
    first = await app.deliver(duly.webhook("https://example.org/a"), {"n": 1}, key="once")
    repeated = await app.deliver(duly.webhook("https://example.org/a"), {"n": 1}, key="once")
    assert (repeated.id, repeated.known) == (first.id, True)
    with pytest.raises(duly.Conflict, match="'once' already belongs to"):
        await app.deliver(duly.webhook("https://example.org/b"), {"n": 1}, key="once")


@pytest.mark.requirement("C5")
async def test_a_bulk_may_have_many_new_hosts(app: App) -> None:
    hosts = [duly.webhook(f"https://host{n}.example/") for n in range(30)]
    accepted = await app.deliver_many((hosts[n % 30], {"n": n}) for n in range(5000))
    assert len({each.id for each in accepted}) == 5000
    repeated = await app.deliver(hosts[0], {"n": 0})
    assert (await app.get(repeated.id)).target == "https://host0.example"
