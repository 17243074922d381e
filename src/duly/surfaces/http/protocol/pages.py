"""Lists in pages, each with the cursor of the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from duly.records.page import Page as Page

Item = TypeVar("Item")
MOST = 200
Limit = Annotated[int, Meta(ge=1, le=MOST, description="how many at most")]
Most = Annotated[int, Meta(ge=1, le=1000, description="how many at most; there are no pages")]
Payloads = Annotated[bool, Meta(description="with the payload of each")]
Cursor = Annotated[str, Meta(description="`next` of the previous page")]


def page_of(found: Sequence[Item], limit: int, next_from: str) -> Page[Item]:
    """Up to `limit` records; one more than that in `found` means that there is a next page.

    The next page begins after the field `next_from` of the last record.
    """
    items = list(found[:limit])
    return Page(items, str(getattr(items[-1], next_from)) if len(found) > limit else None)


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which page of a list."""

    cursor: Cursor | None = None
    limit: Limit = 50
