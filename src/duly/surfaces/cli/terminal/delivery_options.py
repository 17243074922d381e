"""The payload and options of a delivery, as flags of several commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from duly.domain.deliveries.retry_texts import plan_from_text
from duly.domain.endpoints.endpoint import endpoint, endpoint_name
from duly.domain.endpoints.webhooks import webhook
from duly.domain.time.durations import duration
from duly.errors import InvalidInput
from duly.records.delivery import DEFAULT_PRIORITY
from duly.records.target import Target
from duly.surfaces.cli.terminal.times import moment

STDIN = "-"
Payload = Annotated[str | None, Parameter(allow_leading_hyphen=True)]
At = Annotated[str | None, Parameter(help="When it is due, as in 2026-11-16T09:00+01:00.")]
After = Annotated[
    str | None,
    Parameter(name=("--after", "--in"), help="How long from now it is due, as in 90s or 1h30m."),
]
Key = Annotated[str | None, Parameter(help="A repeated key returns the same delivery.")]
Unique = Annotated[
    str | None,
    Parameter(help="pending: only one delivery with this key waits for the target at a time."),
]
OnDuplicate = Annotated[
    str | None,
    Parameter(
        help="If another with the unique key waits: keep it and drop this one, replace its "
        "contents, or postpone it too."
    ),
]
Latest = Annotated[
    str | None,
    Parameter(help="How long after the first acceptance it is not postponed further, as in 5m."),
]
Priority = Annotated[int, Parameter(help="9 goes first, 1 last.")]
ExpiresAt = Annotated[str | None, Parameter(help="Cancel it if it has not started by then.")]
Tags = Annotated[
    tuple[str, ...],
    Parameter(
        name="--tag",
        negative=(),
        show_default=False,
        help="A tag for searching; may be given several times.",
    ),
]

StreamName = Annotated[
    str | None, Parameter(help="Its stream; deliveries of a stream run in order of acceptance.")
]
OnFailure = Annotated[
    str | None,
    Parameter(help="What a failed delivery does to those behind it: block or release."),
]
FairKey = Annotated[
    str | None, Parameter(help="Deliveries of a target with different fair keys take turns.")
]
LimitKey = Annotated[
    str | None, Parameter(help="The key to which its target's limits for each key apply.")
]


RetryText = Annotated[
    str | None,
    Parameter(
        name="--retry",
        help="When it is retried: none, webhook, delays:30,2m,10m or "
        "exponential:base=30s,attempts=10; ;retry_on=4xx also retries those answers.",
    ),
]


BatchId = Annotated[str | None, Parameter(help="The id of the open batch that it joins.")]


@Parameter(name="*")
@dataclass(frozen=True)
class DeliveryOptions:
    """The options of a delivery."""

    at: At = None
    after: After = None
    key: Key = None
    unique: Unique = None
    on_duplicate: OnDuplicate = None
    latest: Latest = None
    priority: Priority = DEFAULT_PRIORITY
    expires_at: ExpiresAt = None
    tags: Tags = ()
    retry: RetryText = None
    stream: StreamName = None
    on_failure: OnFailure = None
    fair_key: FairKey = None
    limit_key: LimitKey = None
    batch: BatchId = None

    def arguments(self) -> dict[str, Any]:
        """The options as arguments of `App.deliver`."""
        given = asdict(self)
        return given | {name: read_option(name, given[name]) for name in READERS}


OPTIONS = DeliveryOptions()
READERS: dict[str, Callable[[str, str], Any]] = {
    "at": moment,
    "after": duration,
    "latest": duration,
    "expires_at": moment,
    "retry": plan_from_text,
}


def read_option(name: str, text: str | None) -> Any:
    """The value of an option that is given as text."""
    return None if text is None else READERS[name](name, text)


def content_of(payload: str | None) -> bytes | None:
    """The bytes of a payload: the argument itself, or the content of a @file or stdin."""
    if payload is None:
        return None
    if payload == STDIN or payload.startswith("@"):
        return bytes_of("payload", payload.removeprefix("@"))
    return os.fsencode(payload)


def bytes_of(field: str, path: str) -> bytes:
    """The content of a file; - is stdin."""
    try:
        return sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise InvalidInput(field, f"{path!r} cannot be read: {problem}") from None


def target_of(text: str) -> Target:
    """The target: a handler's name, a webhook if it is a URL, or endpoint:NAME."""
    if "://" in text:
        return webhook(text)
    name = endpoint_name(text)
    return text if name is None else endpoint(name)
