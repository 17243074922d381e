"""Pages of a list."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

Item = TypeVar("Item")


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """Part of a list; `next` is the cursor of the next page, null at the end.

    A page may be short, or empty, and still have a next one: each examines a bounded number of
    rows.
    """

    items: list[Item]
    next: str | None
