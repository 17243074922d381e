"""Dead letters: filters, groups, and the progress of bulk moves."""

from __future__ import annotations

from datetime import datetime

import msgspec


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Selects the dead letters that match all given fields; all of them if it is empty.

    `text` is searched in error, payload and key. `since` and `until` refer to when they died.
    """

    reason: str | None = None
    fingerprint: str | None = None
    target: str | None = None
    stream: str | None = None
    schedule: str | None = None
    tag: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    ids: tuple[str, ...] = ()


class DeadLetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters with the same fingerprint; the error is that of the latest."""

    fingerprint: str
    reason: str | None
    count: int
    first_at: datetime
    last_at: datetime
    targets: list[str]
    error: str | None


class BulkProgress(msgspec.Struct, frozen=True):
    """Progress of a bulk operation; repeat it with `until` to continue after an interruption."""

    done: int
    total: int
    until: datetime
