"""What is asked of a server, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from duly.errors import StoreUnavailable


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None = None


class Reply(msgspec.Struct, frozen=True):
    """What is answered, whoever it was."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media(self) -> str:
        """What kind of document it says it is."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Unanswered(StoreUnavailable):
    """It was asked, and hung up or fell silent: nobody here knows whether it did it."""
