"""Checks of the entries of an import: each is checked like input from a caller."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, assert_never

import msgspec

from duly.domain import checks
from duly.domain.deliveries import payloads
from duly.domain.deliveries.outcomes import LONGEST_ERROR, LONGEST_TRACEBACK
from duly.domain.deliveries.retry import encode_checked
from duly.domain.deliveries.steps import checked_step
from duly.domain.endpoints import endpoint as endpoint_rules
from duly.domain.endpoints.endpoint import UNKEPT, Details, endpoint_name
from duly.domain.endpoints.signatures import secret_key
from duly.domain.endpoints.webhooks import encode_webhook, is_webhook, webhook
from duly.domain.recovery import checked_generation, checked_policy
from duly.domain.schedules import options as schedule_options
from duly.domain.schedules.options import checked_options, options_in
from duly.domain.schedules.planning import Plan
from duly.domain.schedules.revisions import Revision
from duly.domain.schedules.schedule import ScheduleProgress
from duly.domain.streams.policy import checked_stream, checked_stream_options
from duly.domain.transfer.entries import (
    CalendarEntry,
    DeliveryEntry,
    EndpointEntry,
    PolicyEntry,
    ScheduleEntry,
    StreamEntry,
    Thing,
    content,
)
from duly.domain.turns import checked_turn
from duly.errors import InvalidInput, quoted
from duly.records.recovery import RecoveryPolicy
from duly.records.target import Webhook

ID = re.compile("[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")
LONGEST_REASON = 1000
LONGEST_TEXT = 4 * LONGEST_ERROR
"""In bytes; errors and tracebacks are cut by characters, of up to 4 bytes."""


def check(thing: Thing, payload_limit: int) -> None:
    """Refuse an entry that a store could not have written or could not use."""
    match thing:
        case EndpointEntry():
            _check_endpoint(thing)
        case StreamEntry():
            checks.checked_text("name", thing.name)
            if thing.on_failure is not None or thing.block_for is not None:
                checked_stream_options(
                    {"on_failure": thing.on_failure, "block_for": thing.block_for}
                )
            _check_texts(thing, ("reason",))
        case PolicyEntry():
            policy_of(thing)
        case CalendarEntry():
            checks.checked_name("name", thing.name)
        case ScheduleEntry():
            revision_of(thing, payload_limit)
        case DeliveryEntry():
            _check_delivery(thing, payload_limit)
        case _:
            assert_never(thing)


def _check_endpoint(entry: EndpointEntry) -> None:
    checks.checked_name("name", entry.name)
    details_of(entry)
    _check_texts(entry, ("state_reason",))
    for each in entry.secrets:
        secret_key(each.secret)


def policy_of(entry: PolicyEntry) -> RecoveryPolicy:
    """The checked recovery policy."""
    return checked_policy(
        entry.reason, tries=entry.tries, after=entry.after, then=entry.then, target=entry.target
    )


def details_of(entry: EndpointEntry) -> Details:
    """The checked settings of an endpoint."""
    return endpoint_rules.details(
        {name: getattr(entry, name) for name in Details.__struct_fields__}
    )


def revision_of(entry: ScheduleEntry, payload_limit: int) -> Revision:
    """The schedule to write: its progress is kept, and no delivery is made."""
    checks.checked_text("name", entry.name)
    _check_texts(entry, ("pause_reason",))
    _refuse_missing_headers(entry.missing)
    options = checked_options(options_in(msgspec.structs.asdict(entry)).keywords())
    return Revision(
        plan=Plan(progress=_progress(entry.progress)),
        timing=schedule_options.timing(entry.rule, options),
        contents=schedule_options.contents(
            entry.target, content(entry), options, payload_limit, _address(entry)
        ),
        action="imported",
        paused_at=entry.paused_at,
        pause_reason=entry.pause_reason,
    )


def _progress(progress: ScheduleProgress) -> ScheduleProgress:
    if progress.made_id is not None:
        _check_id(progress.made_id)
    for name in ScheduleProgress.__struct_fields__:
        value = getattr(progress, name)
        if isinstance(value, datetime) and value.tzinfo is None:
            raise InvalidInput(f"progress.{name}", "it has no time zone")
        if isinstance(value, str):
            _check_text(f"progress.{name}", value)
    return progress


def _check_delivery(entry: DeliveryEntry, payload_limit: int) -> None:
    _refuse_missing_headers(entry.missing)
    _check_id(entry.id)
    _address(entry)
    payloads.payload_bytes(content(entry) or b"", payload_limit)
    for name, checked in CHECKED.items():
        value = getattr(entry, name)
        if value is not None:
            checked(value)
    _check_texts(entry, ("occurrence", "reason", "error", "fingerprint"), LONGEST_TEXT)
    _check_state(entry)
    _check_stream(entry)
    _check_unique(entry)
    if entry.schedule is not None and None in (entry.occurrence, entry.occasion):
        raise InvalidInput("schedule", "its delivery has an occurrence and an occasion too")
    for step in entry.steps:
        checked_step(step.name)
    for past in entry.history:
        _check_texts(past, PAST, LONGEST_TEXT)
        _check_texts(past, ("traceback",), 4 * LONGEST_TRACEBACK)


PAST = ("outcome", "reason", "error", "exception")
CHECKED: Mapping[str, Callable[[Any], object]] = {
    "key": lambda value: checks.checked_text("key", value),
    "unique_key": lambda value: checks.checked_text("unique_key", value),
    "priority": checks.checked_priority,
    "tags": checks.checked_tags,
    "stream": checked_stream,
    "schedule": lambda value: checks.checked_text("schedule", value),
    "generation": checked_generation,
    "retry": encode_checked,
    "due_at": lambda value: checks.checked_moment("due_at", value),
    "expires_at": lambda value: checks.checked_moment("expires_at", value),
}


def _check_id(id: str) -> None:
    if not ID.fullmatch(id):
        raise InvalidInput("id", f"{quoted(id)} is no delivery id, which is a UUID")


def _refuse_missing_headers(missing: Sequence[str]) -> None:
    if missing:
        raise InvalidInput(
            "missing",
            f"it was exported without the headers {', '.join(missing)}, and would go out without "
            "them; export with --with-secrets, or write them here and take `missing` out",
        )


def _address(entry: ScheduleEntry | DeliveryEntry) -> str | None:
    """The encoded webhook, or None; target and webhook must fit together."""
    if is_webhook(entry.target) is not (entry.webhook is not None):
        raise InvalidInput("webhook", "a URL has one, and no other target")
    if entry.webhook is None:
        name = endpoint_name(entry.target)
        checks.checked_name("target", entry.target if name is None else name)
        return None
    checked = _webhook(entry.webhook)
    if checked.origin != entry.target:
        raise InvalidInput("target", f"it is not {checked.origin}, to which the webhook goes")
    return encode_webhook(checked)


def _webhook(given: Webhook) -> Webhook:
    return webhook(given.url, method=given.method, headers=given.headers, timeout=given.timeout)


def _check_state(entry: DeliveryEntry) -> None:
    is_pending = entry.state == "pending"
    if is_pending is not (entry.finished_at is None):
        raise InvalidInput("finished_at", f"it does not go with the state {entry.state}")
    if (entry.state == "dead") is not (entry.dead_at is not None):
        raise InvalidInput("dead_at", f"it does not go with the state {entry.state}")
    if entry.next_at is not None and not is_pending:
        raise InvalidInput("next_at", f"it does not go with the state {entry.state}")


def _check_stream(entry: DeliveryEntry) -> None:
    checked_turn(entry.fair_key, entry.limit_key, entry.stream)
    if entry.stream is None and (entry.position or entry.on_failure):
        raise InvalidInput("stream", "what has a place or a policy has a stream")
    if entry.in_line and entry.position is None:
        raise InvalidInput("position", "a delivery in the queue of a stream has one")
    if entry.blocks is not None and not (entry.in_line and entry.state == "dead"):
        raise InvalidInput("blocks", "only a dead letter in the queue of a stream does")
    if entry.unblocks_at is not None and not entry.in_line:
        raise InvalidInput("unblocks_at", "only a delivery in the queue of a stream has one")


def _check_unique(entry: DeliveryEntry) -> None:
    if entry.unique_key is not None and (entry.key or entry.stream or entry.schedule):
        raise InvalidInput("unique_key", "what has a key, a stream or a schedule has none")
    if entry.unique_key is None and (entry.replaced or entry.replaced_at):
        raise InvalidInput("replaced", "only a delivery with a unique key is replaced")


def _check_texts(entry: msgspec.Struct, names: Sequence[str], most: int = LONGEST_REASON) -> None:
    for name in names:
        value = getattr(entry, name)
        if value is not None:
            _check_text(name, value, most)


def _check_text(field: str, value: str, most: int = LONGEST_REASON) -> None:
    """Refuse text that is too long or that a store cannot keep; line breaks are allowed."""
    if UNKEPT.search(value):
        raise InvalidInput(field, "it holds what no store keeps as text")
    if len(value.encode()) > most:
        raise InvalidInput(field, f"it is longer than {most} bytes")


def places(
    entries: Sequence[DeliveryEntry], counters: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """The new stream positions by delivery id, and the new counter of each stream.

    `entries` are sorted by position. A delivery in the queue is put behind all existing ones: it
    keeps its position if that is higher than the counter, else it gets the next one. A delivery
    that has left the queue keeps its position.
    """
    reached, found = dict(counters), {}
    for each in entries:
        if each.stream is None or each.position is None:
            continue
        last = reached[each.stream]
        found[each.id] = max(each.position, last + 1) if each.in_line else each.position
        reached[each.stream] = max(last, found[each.id])
    return found, reached
