"""Webhooks: their options, and what the answers mean."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import webhook
from duly.domain.deliveries.outcomes import Completed, Failed
from duly.domain.endpoints.webhooks import (
    decode_webhook,
    encode_webhook,
    outcome_of,
    retry_after_seconds,
)
from duly.errors import InvalidInput

NOW = datetime(2026, 11, 15, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://example.org/hook?a=1", "https://example.org"),
        ("https://EXAMPLE.org:443/", "https://example.org"),
        ("http://example.org:8080", "http://example.org:8080"),
        ("http://[2001:db8::1]:80/x", "http://[2001:db8::1]"),
    ],
)
def test_an_origin_is_the_normalized_scheme_host_and_port(url: str, origin: str) -> None:
    assert webhook(url).origin == origin


def test_a_webhook_is_read_back_as_it_was_stored() -> None:
    given = webhook("https://example.org/x", method="PUT", headers={"X-Team": "7"}, timeout=5)
    assert decode_webhook(encode_webhook(given)) == given


@pytest.mark.requirement("C7")
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"url": ""}, "url"),
        ({"url": None}, "url"),
        ({"url": "example.org/x"}, "url"),
        ({"url": "ftp://example.org"}, "url"),
        ({"url": "https://"}, "url"),
        ({"url": "https://user:pass@example.org"}, "url"),
        ({"url": "https://example.org/#part"}, "url"),
        ({"url": "https://example.org:0/"}, "url"),
        ({"url": "https://example.org:99999/"}, "url"),
        ({"url": "https://example.org:port/"}, "url"),
        ({"url": "https://exa mple.org/"}, "url"),
        ({"url": "https://example.org/\r\nx"}, "url"),
        ({"url": "https://①②⑦.⓪.⓪.①/"}, "url"),
        ({"url": "https://example.org\\@127.0.0.1/"}, "url"),
        ({"url": "https://%31%32%37.1/"}, "url"),
        ({"url": "https://[::1/"}, "url"),
        ({"url": "https://example.org/" + "x" * 2000}, "url"),
        ({"method": "post"}, "method"),
        ({"method": "CONNECT"}, "method"),
        ({"headers": {"bad name": "x"}}, "headers"),
        ({"headers": {"X-A": "a\r\nEvil: b"}}, "headers"),
        ({"headers": {"X-A": "a\0"}}, "headers"),
        ({"headers": {"X-A": 7}}, "headers"),
        ({"headers": {"X-A": "é"}}, "headers"),
        ({"headers": {"Host": "x"}}, "headers"),
        ({"headers": {"Webhook-Id": "x"}}, "headers"),
        ({"headers": {"idempotency-KEY": "x"}}, "headers"),
        ({"headers": {f"X-{n}": "x" for n in range(51)}}, "headers"),
        ({"timeout": 0.5}, "timeout"),
        ({"timeout": 61}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": True}, "timeout"),
    ],
)
def test_an_invalid_option_is_refused_with_its_field(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        webhook(**{"url": "https://example.org/hook"} | arguments)
    assert caught.value.field == field


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_a_2xx_answer_completes_the_delivery(status: int) -> None:
    assert outcome_of(status, None, lambda: NOW, "kept") == Completed("kept")


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 599])
def test_a_temporary_failure_is_retried(status: int) -> None:
    outcome = outcome_of(status, None, lambda: NOW, "kept")
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.again, outcome.answer) == ("dependency_failure", None, "kept")


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    "status", [100, 300, 301, 302, 304, 307, 308, 400, 401, 403, 404, 410, 422]
)
def test_a_permanent_failure_is_dead_at_once(status: int) -> None:
    outcome = outcome_of(status, "30", lambda: NOW, "kept")
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.again) == ("validation_failure", False)


@pytest.mark.requirement("C5", "F2")
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("99999999999999999999", 86400.0),
        ("Sun, 15 Nov 2026 08:05:00 GMT", 300.0),
        ("Sun, 15 Nov 2026 07:00:00 GMT", 0.0),
        ("Mon, 15 Nov 2027 08:00:00 GMT", 86400.0),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
        ("Sun, 15 Nov 99999999999999999999 08:05:00 GMT", None),
        ("Sun, 15 Nov 2026 99999999999999999999:05:00 GMT", None),
        ("Sun, 15 Nov 2026 08:05:00 +99999999999999999999", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_up_to_a_day(
    header: str | None, seconds: float | None
) -> None:
    assert retry_after_seconds(header, NOW) == seconds


def test_retry_after_is_measured_from_now() -> None:
    later = NOW + timedelta(seconds=90)
    assert retry_after_seconds("Sun, 15 Nov 2026 08:05:00 GMT", later) == 210.0
