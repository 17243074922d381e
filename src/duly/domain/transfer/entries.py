"""An export: a file that tells a namespace, one thing a line, for people to read and import again.

The first line says what it is and the last how much there was, so that a part is never taken for
the whole. Whatever is JSON in the books is JSON here, byte for byte where it is a payload.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from duly.domain.checks import DEFAULT_PRIORITY
from duly.domain.deliveries.retry import RetryPlan
from duly.domain.deliveries.steps import Step
from duly.domain.endpoints.endpoint import EndpointState
from duly.domain.endpoints.webhooks import DEFAULT_TIMEOUT, Webhook, decode_webhook, is_hidden
from duly.domain.schedules.schedule import (
    DEFAULT_CAP,
    CatchUp,
    Occasion,
    Overlap,
    ScheduleProgress,
    StoredSchedule,
)
from duly.domain.streams.policy import OnFailure
from duly.domain.time.rules import Rule
from duly.errors import InvalidInput

VERSION = 1
SECRET = "secret"
ABSENT = msgspec.Raw(b"")
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Small = Annotated[int, msgspec.Meta(ge=0, le=32_767)]
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Place = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
Scope = Literal["unfinished", "all"]


class Entry(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind"
):
    """One line."""


class Heading(Entry, tag="duly-export", frozen=True, kw_only=True):
    """What it is: always the first."""

    version: int
    duly: str
    schema: int
    namespace: str
    exported_at: Moment
    deliveries: Scope
    secrets: bool


class Ending(Entry, tag="end", frozen=True, kw_only=True):
    """How many lines of each kind there were: always the last."""

    counts: dict[str, int]


class Secret(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A secret as it is signed with."""

    secret: str
    until: Moment | None = None

    def __repr__(self) -> str:
        # It may end in a log.
        return f"Secret(until={self.until!r})"


class EndpointEntry(Entry, tag="endpoint", frozen=True, kw_only=True):
    """A named endpoint; `missing` names what was left out of it because it is secret."""

    name: str
    url: str
    description: str = ""
    method: str = "POST"
    headers: dict[str, str] = {}
    timeout: float = DEFAULT_TIMEOUT
    rate: float | None = None
    in_flight: int | None = None
    retry: RetryPlan | None = None
    state: EndpointState
    state_reason: str | None = None
    state_at: Moment
    secrets: tuple[Secret, ...] = ()
    missing: tuple[str, ...] = ()


class StreamEntry(Entry, tag="stream", frozen=True, kw_only=True):
    """A stream of which somebody said something; any other comes to be with its deliveries."""

    name: str
    on_failure: OnFailure | None = None
    paused_at: Moment | None = None
    reason: str | None = None


class ScheduleEntry(Entry, tag="schedule", frozen=True, kw_only=True):
    """A schedule and how far it has come. Without a payload it delivers the occasion itself."""

    name: str
    rule: Rule
    catch_up: CatchUp
    window: float | None = None
    cap: int = DEFAULT_CAP
    overlap: Overlap = Overlap.ALLOW
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    max_runs: int | None = None
    jitter: float = 0.0
    target: str
    webhook: Webhook | None = None
    missing: tuple[str, ...] = ()
    payload: msgspec.Raw = ABSENT
    payload_text: str | None = None
    priority: int = DEFAULT_PRIORITY
    stream: str | None = None
    expires_after: float | None = None
    retry: RetryPlan | None = None
    tags: tuple[str, ...] = ()
    paused_at: Moment | None = None
    pause_reason: str | None = None
    progress: ScheduleProgress


class Past(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One move of a delivery's history."""

    attempt: Small
    outcome: str
    started_at: Moment | None = None
    finished_at: Moment
    next_at: Moment | None = None
    reason: str | None = None
    error: str | None = None
    answer: msgspec.Raw = ABSENT
    traceback: str | None = None


class DeliveryEntry(Entry, tag="delivery", frozen=True, kw_only=True):
    """A delivery with all its facts; what a worker held is pending, its attempts as they are.

    With a `position` it has a place in its stream; `in_line` it still stands there, so those
    behind it wait, and `blocks` says since when a dead one holds them up. `next_at` is there if
    it is not due at `due_at`. If its schedule was removed, `former` is the number that it had: one
    of the same name made anew has the same occurrences.
    """

    id: str
    state: Literal["pending", "completed", "dead", "cancelled"]
    target: str
    webhook: Webhook | None = None
    missing: tuple[str, ...] = ()
    payload: msgspec.Raw = ABSENT
    payload_text: str | None = None
    key: str | None = None
    priority: int = DEFAULT_PRIORITY
    tags: tuple[str, ...] = ()
    retry: RetryPlan | None = None
    stream: str | None = None
    position: Place | None = None
    in_line: bool = False
    blocks: Moment | None = None
    on_failure: OnFailure | None = None
    schedule: str | None = None
    former: Number | None = None
    occurrence: str | None = None
    occasion: Occasion | None = None
    due_at: Moment
    next_at: Moment | None = None
    accepted_at: Moment
    expires_at: Moment | None = None
    attempt: Small = 0
    crashes: Small = 0
    started_at: Moment | None = None
    finished_at: Moment | None = None
    dead_at: Moment | None = None
    reason: str | None = None
    error: str | None = None
    fingerprint: str | None = None
    steps: tuple[Step, ...] = ()
    history: tuple[Past, ...] = ()


Thing = EndpointEntry | StreamEntry | ScheduleEntry | DeliveryEntry
Sent = TypeVar("Sent", ScheduleEntry, DeliveryEntry)
KINDS: dict[type[Thing], str] = {
    EndpointEntry: "endpoints",
    StreamEntry: "streams",
    ScheduleEntry: "schedules",
    DeliveryEntry: "deliveries",
}
"""What they are counted as; this is also their order in a file, since later ones name earlier."""


class _Probe(msgspec.Struct):
    """The first line as any version writes it."""

    kind: str = ""
    version: int = 0
    duly: str = "a newer one"


_probes = msgspec.json.Decoder(_Probe)
_headings = msgspec.json.Decoder(Heading)
_entries: msgspec.json.Decoder[Thing | Ending] = msgspec.json.Decoder(Thing | Ending)


def name_of(thing: Thing) -> str:
    """By what it is known, among its kind."""
    return thing.id if isinstance(thing, DeliveryEntry) else thing.name


def encode(entry: Entry) -> bytes:
    """The entry as a line."""
    return msgspec.json.encode(entry) + b"\n"


def decode_heading(line: bytes) -> Heading:
    """The first line, or why this file cannot be imported."""
    try:
        probe = _probes.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        probe = _Probe()
    if probe.kind != Heading.__struct_config__.tag:
        raise InvalidInput("file", "its first line is not that of an export by `duly export`")
    if probe.version > VERSION:
        raise InvalidInput(
            "file",
            f"it is an export of version {probe.version} by duly {probe.duly}, and this duly reads "
            f"up to {VERSION}; import it with that one",
        )
    try:
        return _headings.decode(line)
    except msgspec.DecodeError as error:
        raise InvalidInput("file", f"its first line is damaged: {error}") from error


def decode(line: bytes) -> Thing | Ending:
    """Any other line; InvalidInput when it is none."""
    try:
        return _entries.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("line", str(error)) from error


def content(entry: Sent) -> bytes | None:
    """The payload as it was accepted."""
    if entry.payload_text is not None:
        return entry.payload_text.encode()
    return bytes(entry.payload) or None


def told(payload: bytes) -> dict[str, Any]:
    """A payload in a line: as the JSON it is, or as text if it would not come back the same."""
    if payload.strip() == payload and not any(each in payload for each in (b"\n", b"\r")):
        return {"payload": msgspec.Raw(payload)}
    return {"payload_text": payload.decode()}


def one_line(stored: str | None) -> msgspec.Raw:
    """JSON from the books on one line; between its parts a break means no more than a blank."""
    if stored is None:
        return ABSENT
    return msgspec.Raw(stored.replace("\r", " ").replace("\n", " ").encode())


def schedule_entry(schedule: StoredSchedule, retry: RetryPlan | None) -> ScheduleEntry:
    """A schedule as a line."""
    timing, contents = schedule.timing, schedule.contents
    return ScheduleEntry(
        **msgspec.structs.asdict(timing),
        name=schedule.name,
        target=contents.target,
        webhook=None if contents.address is None else decode_webhook(contents.address),
        **({} if contents.payload is None else told(contents.payload)),
        **{name: getattr(contents, name) for name in CARRIED},
        retry=retry,
        paused_at=schedule.paused_at,
        pause_reason=schedule.pause_reason,
        progress=schedule.progress,
    )


CARRIED = ("priority", "stream", "expires_after", "tags")


def without_credentials(entry: Sent) -> Sent:
    """Without the headers whose names look like credentials; `missing` tells them."""
    hidden = [] if entry.webhook is None else hidden_headers(entry.webhook.headers)
    if not hidden or entry.webhook is None:
        return entry
    kept = {name: value for name, value in entry.webhook.headers.items() if name not in hidden}
    webhook = msgspec.structs.replace(entry.webhook, headers=kept)
    return msgspec.structs.replace(entry, webhook=webhook, missing=tuple(hidden))


def without_secrets(entry: EndpointEntry, signs: bool) -> EndpointEntry:
    """The same for an endpoint, whose secret is `missing` too if it has one."""
    hidden = hidden_headers(entry.headers)
    kept = {name: value for name, value in entry.headers.items() if name not in hidden}
    missing = (*([SECRET] if signs else []), *hidden)
    return msgspec.structs.replace(entry, headers=kept, missing=missing)


def hidden_headers(headers: dict[str, str]) -> list[str]:
    """The names of headers that nobody should read."""
    return [name for name, value in headers.items() if is_hidden(name, value)]
