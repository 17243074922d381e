"""The results of the tools: JSON of the records, without payloads, and limited in size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec
from msgspec import UNSET

from duly.errors import InvalidInput
from duly.records.delivery import DeliveryDetail
from duly.records.endpoint import Endpoint
from duly.records.page import Page
from duly.records.schedule import Schedule, UpcomingRun
from duly.records.stream import Stream
from duly.safe_text import safe_json, shown_url

MOST_BYTES = 100_000
"""The size of the largest result: a client gives all of it to its model."""
Record = TypeVar("Record", bound=msgspec.Struct)


class Named(Protocol):
    """A record with a name."""

    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=Named)


class ShownSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule and its next moments; of a paused one, as if it were resumed now."""

    schedule: Schedule
    next: list[UpcomingRun]


class ExplainedPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery with its last attempt, and the stream and endpoint that it may wait for."""

    delivery: DeliveryDetail
    stream: Stream | None
    endpoint: Endpoint | None


def text_of(result: object) -> str:
    """The result as JSON; InvalidInput if it is too large."""
    data = msgspec.json.encode(result)
    if len(data) > MOST_BYTES:
        raise InvalidInput(
            "result",
            f"it has {len(data)} bytes, and {MOST_BYTES} fit; ask for fewer, or without payload",
        )
    # Stored payloads and answers in it are unchecked and may not be UTF-8.
    return safe_json(data.decode(errors="replace"))


def without_payload(record: Record) -> Record:
    """A delivery or a schedule without its payload."""
    return msgspec.structs.replace(record, payload_json=UNSET)


def without_credentials(found: Endpoint) -> Endpoint:
    """An endpoint without the query values of its URL, which the record of one endpoint has."""
    return msgspec.structs.replace(found, url=shown_url(found.url))


def recent(detail: DeliveryDetail, attempts: int, *, payload: bool) -> DeliveryDetail:
    """The latest attempts and state changes of a delivery, with or without what it carries."""
    latest = msgspec.structs.replace(
        detail,
        attempts=detail.attempts[-attempts:],
        transitions=detail.transitions[-2 * attempts :],
    )
    if payload:
        return latest
    bare = [msgspec.structs.replace(each, result=None) for each in latest.attempts]
    return without_payload(msgspec.structs.replace(latest, attempts=bare, result=None, steps=[]))


def page_by_name(found: Sequence[Item], limit: int) -> Page[Item]:
    """Up to `limit` records; one more than that in `found` means that there is a next page."""
    items = list(found[:limit])
    return Page(items, items[-1].name if len(found) > limit else None)
