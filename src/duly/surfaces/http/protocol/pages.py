"""Lists in pages: each names where the next begins."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from duly.records.page import Page as Page

MOST = 200
Limit = Annotated[int, Meta(ge=1, le=MOST, description="how many at most")]
Most = Annotated[int, Meta(ge=1, le=1000, description="how many at most; there are no pages")]
Payloads = Annotated[bool, Meta(description="with the payload of each")]
Cursor = Annotated[str, Meta(description="`next` of the page before")]


class PageQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which page of a list."""

    cursor: Cursor | None = None
    limit: Limit = 50
