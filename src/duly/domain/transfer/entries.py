"""The format of an export: a namespace as a file of JSON lines, readable and importable.

The first line is a heading and the last has the counts, so that a truncated file is detected.
JSON columns of the store are JSON here; payloads are copied byte for byte.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET

from duly.domain.endpoints.webhooks import decode_webhook
from duly.domain.schedules.schedule import Occasion, ScheduleProgress, StoredSchedule
from duly.domain.time.business_days import BusinessDays
from duly.domain.time.rules import Rule, with_days
from duly.errors import InvalidInput
from duly.records.attempt import Step
from duly.records.delivery import DEFAULT_PRIORITY
from duly.records.endpoint import EndpointOptions, EndpointState
from duly.records.recovery import AfterTries
from duly.records.retry_plan import RetryPlan
from duly.records.schedule import DEFAULT_CAP, CatchUp, Overlap
from duly.records.stream import OnFailure
from duly.records.target import Webhook, is_hidden

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
    """One line of an export."""


class Heading(Entry, tag="duly-export", frozen=True, kw_only=True):
    """The first line: format, origin and scope of the export."""

    version: int
    duly: str
    schema: int
    namespace: str
    exported_at: Moment
    deliveries: Scope
    secrets: bool


class Ending(Entry, tag="end", frozen=True, kw_only=True):
    """The last line: the number of entries of each kind."""

    counts: dict[str, int]


class Secret(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A signing secret, decrypted."""

    secret: str
    until: Moment | None = None

    def __repr__(self) -> str:
        # A repr may appear in a log.
        return f"Secret(until={self.until!r})"


class EndpointEntry(EndpointOptions, Entry, tag="endpoint", frozen=True, kw_only=True):
    """A named endpoint; `missing` lists the secret parts that were left out."""

    name: str
    state: EndpointState
    state_reason: str | None = None
    state_at: Moment
    secrets: tuple[Secret, ...] = ()
    missing: tuple[str, ...] = ()


class StreamEntry(Entry, tag="stream", frozen=True, kw_only=True):
    """A stream with a policy or a pause; other streams are created with their deliveries."""

    name: str
    on_failure: OnFailure | None = None
    block_for: float | None = None
    paused_at: Moment | None = None
    reason: str | None = None


class CalendarEntry(Entry, tag="calendar", frozen=True, kw_only=True):
    """A calendar with its closed days."""

    name: str
    days: BusinessDays


class ScheduleEntry(Entry, tag="schedule", frozen=True, kw_only=True):
    """A schedule and its progress; without a payload it delivers the occasion."""

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
    """One entry of a delivery's history."""

    attempt: Small
    outcome: str
    started_at: Moment | None = None
    finished_at: Moment
    next_at: Moment | None = None
    reason: str | None = None
    error: str | None = None
    answer: msgspec.Raw = ABSENT
    traceback: str | None = None
    exception: str | None = None


class PolicyEntry(Entry, tag="policy", frozen=True, kw_only=True):
    """A recovery policy of a reason, for one target or for all."""

    reason: str
    target: str | None = None
    tries: Small
    after: float = 0.0
    then: AfterTries | None = None

    @property
    def name(self) -> str:
        """What no other policy has."""
        return f"{self.reason} {self.target or ''}"


class DeliveryEntry(Entry, tag="delivery", frozen=True, kw_only=True):
    """A delivery with all its fields; one that a worker held is pending, with its attempts.

    `position` is its place in its stream. With `in_line` it is still in the queue, so those behind
    it wait; `blocks` is since when a dead one blocks the stream, and `unblocks_at` when the block
    of a failed head ends by itself. `next_at` is set if it differs
    from `due_at`. `former` is the number of its schedule if that was removed: a new schedule of
    the same name may have the same occurrences.
    """

    id: str
    state: Literal["pending", "completed", "dead", "cancelled"]
    target: str
    webhook: Webhook | None = None
    missing: tuple[str, ...] = ()
    payload: msgspec.Raw = ABSENT
    payload_text: str | None = None
    key: str | None = None
    unique_key: str | None = None
    replaced: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    replaced_at: Moment | None = None
    priority: int = DEFAULT_PRIORITY
    tags: tuple[str, ...] = ()
    retry: RetryPlan | None = None
    stream: str | None = None
    position: Place | None = None
    in_line: bool = False
    blocks: Moment | None = None
    unblocks_at: Moment | None = None
    on_failure: OnFailure | None = None
    fair_key: str | None = None
    limit_key: str | None = None
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
    disposition: Literal["held", "given_up"] | None = None
    revivals: Small = 0
    generation: str | None = None
    steps: tuple[Step, ...] = ()
    history: tuple[Past, ...] = ()


Thing = EndpointEntry | StreamEntry | PolicyEntry | CalendarEntry | ScheduleEntry | DeliveryEntry
Sent = TypeVar("Sent", ScheduleEntry, DeliveryEntry)
KINDS: dict[type[Thing], str] = {
    EndpointEntry: "endpoints",
    StreamEntry: "streams",
    PolicyEntry: "policies",
    CalendarEntry: "calendars",
    ScheduleEntry: "schedules",
    DeliveryEntry: "deliveries",
}
"""Names of the entry kinds, in file order: later kinds refer to earlier ones."""


class _Probe(msgspec.Struct):
    """The fields of the first line that all versions have."""

    kind: str = ""
    version: int = 0
    duly: str = "a newer one"


_probes = msgspec.json.Decoder(_Probe)
_headings = msgspec.json.Decoder(Heading)
_entries: msgspec.json.Decoder[Thing | Ending] = msgspec.json.Decoder(Thing | Ending)


def name_of(thing: Thing) -> str:
    """The name or id that identifies an entry among its kind."""
    return thing.id if isinstance(thing, DeliveryEntry) else thing.name


def encode(entry: Entry) -> bytes:
    """The entry as a line of the file."""
    if not isinstance(entry, EndpointEntry):
        return msgspec.json.encode(entry) + b"\n"
    # The name comes first in the file, but inherited fields come first in a struct.
    fields = msgspec.to_builtins(entry)
    return msgspec.json.encode({"kind": fields["kind"], "name": entry.name} | fields) + b"\n"


def decode_heading(line: bytes) -> Heading:
    """The decoded first line; InvalidInput if the file cannot be imported."""
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
    """Any other line, decoded; InvalidInput if it is no entry."""
    try:
        return _entries.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("line", str(error)) from error


def content(entry: Sent) -> bytes | None:
    """The payload bytes of an entry."""
    if entry.payload_text is not None:
        return entry.payload_text.encode()
    return bytes(entry.payload) or None


def payload_fields(payload: bytes) -> dict[str, Any]:
    """The payload fields of an entry: raw JSON, or text if raw JSON would change its bytes."""
    if payload.strip() == payload and not any(each in payload for each in (b"\n", b"\r")):
        return {"payload": msgspec.Raw(payload)}
    return {"payload_text": payload.decode()}


def one_line(stored: str | None) -> msgspec.Raw:
    """Stored JSON on one line; line breaks between tokens become spaces."""
    if stored is None:
        return ABSENT
    return msgspec.Raw(stored.replace("\r", " ").replace("\n", " ").encode())


def schedule_entry(schedule: StoredSchedule, retry: RetryPlan | None) -> ScheduleEntry:
    """The entry of a schedule."""
    timing, contents = schedule.timing, schedule.contents
    # The days of its calendar are an entry of their own.
    timing = msgspec.structs.replace(timing, rule=with_days(timing.rule, UNSET))
    return ScheduleEntry(
        **msgspec.structs.asdict(timing),
        name=schedule.name,
        target=contents.target,
        webhook=None if contents.address is None else decode_webhook(contents.address),
        **({} if contents.payload is None else payload_fields(contents.payload)),
        **{name: getattr(contents, name) for name in CARRIED},
        retry=retry,
        paused_at=schedule.paused_at,
        pause_reason=schedule.pause_reason,
        progress=schedule.progress,
    )


CARRIED = ("priority", "stream", "expires_after", "tags")


def without_credentials(entry: Sent) -> Sent:
    """The entry without headers that look like credentials; `missing` lists their names."""
    hidden = [] if entry.webhook is None else hidden_headers(entry.webhook.headers)
    if not hidden or entry.webhook is None:
        return entry
    kept = {name: value for name, value in entry.webhook.headers.items() if name not in hidden}
    webhook = msgspec.structs.replace(entry.webhook, headers=kept)
    return msgspec.structs.replace(entry, webhook=webhook, missing=tuple(hidden))


def without_secrets(entry: EndpointEntry, signs: bool) -> EndpointEntry:
    """An endpoint's entry without credentials; `missing` also lists its secret if it has one."""
    hidden = hidden_headers(entry.headers)
    kept = {name: value for name, value in entry.headers.items() if name not in hidden}
    missing = (*([SECRET] if signs else []), *hidden)
    return msgspec.structs.replace(entry, headers=kept, missing=missing)


def hidden_headers(headers: dict[str, str]) -> list[str]:
    """The names of headers that are hidden."""
    return [name for name, value in headers.items() if is_hidden(name, value)]
