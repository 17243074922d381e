"""How far a running delivery is."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a running delivery is, as its handler reported."""

    id: str
    target: str
    progress: Annotated[float, Meta(description="from 0 to 1")]
    note: str | None = None
    at: datetime
