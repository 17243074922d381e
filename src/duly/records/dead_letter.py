"""Dead letters: filters, groups, and bulk operations. A dead letter itself is a `Delivery`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from duly.records.recovery import WhichLetters

Moment = Annotated[datetime, Meta(tz=True)]


class DeadLetterCriteria(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which dead letters: those that match all given fields.

    `text` is searched in error, payload and key. `since` and `until` refer to when they died.
    """

    reason: str | None = None
    fingerprint: str | None = None
    target: str | None = None
    stream: str | None = None
    schedule: str | None = None
    disposition: (
        Annotated[
            str,
            Meta(
                description="open: neither held nor given up",
                extra_json_schema={"enum": list(WhichLetters)},
            ),
        ]
        | None
    ) = None
    tag: str | None = None
    text: str | None = None
    since: Moment | None = None
    until: Moment | None = None


class DeadLetterFilter(DeadLetterCriteria, frozen=True, kw_only=True):
    """Selects dead letters by criteria, by id, or both; all of them if it is empty."""

    ids: tuple[str, ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether nothing but `until` limits what it selects."""
        names = set(DeadLetterFilter.__struct_fields__) - {"until"}
        return all(getattr(self, name) in (None, ()) for name in names)


class DeadLetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters with the same fingerprint; the error is that of the latest."""

    fingerprint: str
    reason: str | None
    count: int
    first_at: datetime
    last_at: datetime
    targets: list[str]
    error: str | None


class BulkProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a bulk operation; repeat it with `until` to continue after an interruption."""

    done: int
    total: int
    until: datetime


class BulkResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters matched, and how many were moved.

    While it is not `finished`, some are left: repeat the operation with this `until` to continue.
    """

    matching: int
    moved: int = 0
    until: datetime | None = None
    finished: bool = True
