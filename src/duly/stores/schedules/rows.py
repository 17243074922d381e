"""The rows of schedules: what is written of a revision, and the schedule that a row holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from duly.domain.endpoints.sealed_addresses import SealedAddresses
from duly.domain.schedules.origin import Origin
from duly.domain.schedules.revisions import Revision
from duly.domain.schedules.schedule import Contents, StoredSchedule
from duly.domain.time.rules import calendar_of, encode_rule
from duly.stores.schedules.plans import progress_of, timing_of


def columns_of(
    revision: Revision, numbers: Mapping[str, int], addresses: SealedAddresses
) -> dict[str, Any]:
    """The columns of a schedule's row that a revision sets."""
    timing, contents = revision.timing, revision.contents
    return {
        "rule": encode_rule(timing.rule),
        "catch_up": timing.catch_up.value,
        "catch_up_window": timing.window,
        "catch_up_cap": timing.cap,
        "overlap": timing.overlap.value,
        "starts_at": timing.starts_at,
        "ends_at": timing.ends_at,
        "max_runs": timing.max_runs,
        "jitter": timing.jitter,
        "calendar": calendar_of(timing.rule),
        "target": numbers[contents.target],
        "address": addresses.sealed(contents.address),
        "payload": contents.payload,
        "priority": contents.priority,
        "stream": contents.stream,
        "expires_after": contents.expires_after,
        "retry": contents.retry,
        "tags": msgspec.json.encode(contents.tags).decode() if contents.tags else None,
        "paused_at": revision.paused_at,
        "pause_reason": revision.pause_reason,
    }


def schedule_of(row: Mapping[str, Any], addresses: SealedAddresses) -> StoredSchedule:
    """A schedule from its row; UnreadableRule if a newer version wrote it."""
    contents = Contents(
        target=row["target_name"],
        address=addresses.readable(row["address"]),
        payload=None if row["payload"] is None else bytes(row["payload"]),
        priority=row["priority"],
        stream=row["stream"],
        expires_after=row["expires_after"],
        retry=row["retry"],
        tags=tuple(msgspec.json.decode(row["tags"])) if row["tags"] else (),
    )
    return StoredSchedule(
        id=row["id"],
        name=row["name"],
        version=row["version"],
        timing=timing_of(row),
        contents=contents,
        progress=progress_of(row),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        paused_at=row["paused_at"],
        pause_reason=row["pause_reason"],
        origin=_origin(row),
    )


def _origin(row: Mapping[str, Any]) -> Origin | None:
    if row["program"] is None:
        return None
    return Origin(row["program"], row["place"], row["left_at"])
