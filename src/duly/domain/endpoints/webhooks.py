"""Webhooks: URL, method and headers, their checks, and what an answer means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import SplitResult, urlsplit

import msgspec

from duly.domain.deliveries.outcomes import Completed, Failed, Outcome
from duly.errors import InvalidInput, quoted, shown_number
from duly.records.reason import Reason
from duly.records.retry_plan import GONE
from duly.records.target import DEFAULT_TIMEOUT, LONGEST_TIMEOUT, SHORTEST_TIMEOUT, Webhook
from duly.safe_text import shown_url

METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET")
LONGEST_URL = 2000
LONGEST_RETRY_AFTER = timedelta(hours=24)
MOST_HEADERS, LONGEST_HEADER = 50, 4000
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
RESERVED = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "content-encoding"),
        *("expect", "te", "trailer", "upgrade", "idempotency-key", "x-idempotency-key"),
    }
)
"""Headers that duly or HTTP sets; duly also sets those that begin with webhook-."""
AGAIN = frozenset({408, 425, 429})
ANSWERED = "it answered {}"
RETRY_ON = ', which ends it; with retry_on="4xx" in its retry plan it is tried again'
REDIRECTED = ", which ends it: redirects are not followed; give the URL to which it leads"


def webhook(
    url: str,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    timeout: float = DEFAULT_TIMEOUT,
) -> Webhook:
    """A URL as the target of a delivery; the host's IP address is checked when it is called."""
    return Webhook(
        checked_url(url),
        checked_method(method),
        checked_headers(headers or {}),
        checked_timeout(timeout),
    )


def is_webhook(target: str) -> bool:
    """Whether a target's name is the origin of a URL."""
    return target.startswith(("http://", "https://"))


def checked_url(url: object) -> str:
    """A valid webhook URL: http or https, with a host, without user or fragment."""
    if not isinstance(url, str) or not 1 <= len(url) <= LONGEST_URL:
        raise InvalidInput("url", f"{quoted(url)} is no URL of at most {LONGEST_URL} characters")
    if not url.isascii() or any(each <= " " or each == "\x7f" for each in url):
        raise InvalidInput("url", f"{_redacted(url)} has characters that must be escaped in a URL")
    try:
        parts = urlsplit(url)
        _check_parts(parts)
    except ValueError as error:
        raise InvalidInput("url", f"{_redacted(url)} cannot be read: {error}") from None
    return url


def _redacted(url: str) -> str:
    # An error may appear in a log.
    return quoted(shown_url(url))


def _check_parts(parts: SplitResult) -> None:
    if parts.scheme not in ("http", "https"):
        raise ValueError("give http:// or https://")
    if not (parts.hostname or "").strip("."):
        raise ValueError("it names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it carries a user or a password; use a header instead")
    if parts.fragment:
        raise ValueError("a fragment (#) is never sent; remove it")
    if parts.port == 0:
        raise ValueError("0 is no port")
    if "\\" in parts.netloc or "%" in parts.netloc:
        raise ValueError("its host is not spelled plainly")


def checked_method(method: object) -> str:
    """A method that webhooks can use."""
    if method not in METHODS:
        raise InvalidInput("method", f"{method!r} is none of {', '.join(METHODS)}")
    return str(method)


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that a caller may add: no line breaks, none that duly sets."""
    if not isinstance(headers, Mapping) or len(headers) > MOST_HEADERS:
        raise InvalidInput("headers", f"give a mapping with at most {MOST_HEADERS} of them")
    return {_name(name): _value(name, value) for name, value in headers.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not TOKEN.match(name):
        raise InvalidInput("headers", f"{quoted(name)} is no header's name")
    if name.lower() in RESERVED or name.lower().startswith("webhook-"):
        raise InvalidInput("headers", f"{name!r} is set by duly; leave it out")
    return name


def _value(name: str, value: object) -> str:
    is_text = isinstance(value, str) and len(value) <= LONGEST_HEADER
    if not is_text or any(ord(each) < 32 and each != "\t" for each in str(value)):
        raise InvalidInput("headers", f"the value of {name!r} is no single line of text")
    if not str(value).isascii() or "\x7f" in str(value):
        raise InvalidInput("headers", f"the value of {name!r} is not plain ASCII")
    return str(value)


def checked_timeout(timeout: object) -> float:
    """The time limit of a whole attempt in seconds."""
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not SHORTEST_TIMEOUT <= timeout <= LONGEST_TIMEOUT:  # type: ignore[operator]
        raise InvalidInput(
            "timeout",
            f"{shown_number(timeout)} is not from {SHORTEST_TIMEOUT:g} to "
            f"{LONGEST_TIMEOUT:g} seconds",
        )
    return float(timeout)  # type: ignore[arg-type]


_webhooks = msgspec.json.Decoder(Webhook)


def encode_webhook(given: Webhook) -> str:
    """The webhook as JSON, stored with the delivery."""
    return msgspec.json.encode(given).decode()


def decode_webhook(stored: str) -> Webhook:
    """The webhook from stored JSON."""
    return _webhooks.decode(stored)


def outcome_of(
    status: int, retry_after: str | None, now: Callable[[], datetime], answer: str
) -> Outcome:
    """The outcome of an answer: 2xx completes, some are retried, others only with `retry_on`."""
    if 200 <= status < 300:
        return Completed(answer)
    error = ANSWERED.format(status)
    wait = retry_after_seconds(retry_after, now())
    if status in AGAIN or status >= 500:
        return Failed(Reason.DEPENDENCY_FAILURE, error, at_least=wait, answer=answer)
    return Failed(
        Reason.VALIDATION_FAILURE,
        error,
        again=False,
        at_least=wait,
        answer=answer,
        gone=status == GONE,
        status=status,
        advice=_advice(status),
    )


def _advice(status: int) -> str:
    if status < 300 or status == GONE:
        return ""
    return REDIRECTED if status < 400 else RETRY_ON


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """The wait in seconds that a Retry-After header asks for; at most a day."""
    if header is None:
        return None
    text = header.strip()
    longest = LONGEST_RETRY_AFTER.total_seconds()
    if text.isascii() and text.isdecimal():
        return min(float(text[:10]), longest)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - now).total_seconds(), 0.0), longest)
