"""Pages of a list."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

Item = TypeVar("Item")


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """Some of a list, and where the rest begins."""

    items: list[Item]
    next: str | int | None = None
