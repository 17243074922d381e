"""Queries and bodies of `/v1/dead-letters`."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from duly.errors import InvalidInput
from duly.records.dead_letter import DeadLetterCriteria, DeadLetterFilter
from duly.surfaces.http.protocol.bulk import BUDGET_SECONDS, Seconds
from duly.surfaces.http.protocol.pages import Cursor, Limit, Most, Payloads

MOST_IDS = 10_000


class GroupQuery(DeadLetterCriteria, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters to group, and how many groups to list."""

    limit: Most = 50


class DeadQuery(DeadLetterCriteria, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters to list."""

    payloads: Payloads = False
    cursor: Cursor | None = None
    limit: Limit = 50


class PoisonQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many to list, and which."""

    last_attempts: Annotated[
        bool, Meta(description="also list those whose next attempt is their last")
    ] = False
    payloads: Payloads = False
    limit: Most = 50


class Which(DeadLetterFilter, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters to move: by their ids, by a filter, or all of them."""

    ids: Annotated[tuple[str, ...], Meta(max_length=MOST_IDS)] = ()
    all: Annotated[bool, Meta(description="all dead letters, without a filter")] = False
    seconds: Seconds = BUDGET_SECONDS
    dry_run: Annotated[bool, Meta(description="only count")] = False

    def check(self) -> None:
        """InvalidInput if no filter is given, unless `all` is set."""
        if self.is_all != self.all:
            raise InvalidInput("all", "give ids or a filter, or only all: true")


class Retry(Which, frozen=True, kw_only=True):
    """Which dead letters to retry, and how fast."""

    EXAMPLE: ClassVar = {"reason": "timeout_exceeded", "rate": 50, "dry_run": True}
    rate: Annotated[float, Meta(gt=0, description="the most per second")] | None = None
    reset_attempts: Annotated[bool, Meta(description="they get all their attempts again")] = True


class Release(Which, frozen=True, kw_only=True):
    """Which held dead letters to release."""

    EXAMPLE: ClassVar = {"target": "endpoint:bank"}


class WithNote(Which, frozen=True, kw_only=True):
    """Which dead letters to discard, hold or give up, and why."""

    EXAMPLE: ClassVar = {"tag": "old", "note": "the customer has left"}
    note: str


class RetryOne(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to retry one."""

    EXAMPLE: ClassVar = {"reset_attempts": True}
    reset_attempts: Annotated[bool, Meta(description="it gets all its attempts again")] = True


class NoteOne(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why it is discarded, held or given up."""

    EXAMPLE: ClassVar = {"note": "the customer has left"}
    note: str


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The new payload."""

    EXAMPLE: ClassVar = {"payload": {"hello": "world"}}
    payload: Annotated[msgspec.Raw, Meta(description="any JSON; it is stored and sent unchanged")]
