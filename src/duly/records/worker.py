"""Workers: the processes that attempt deliveries."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process, since it was started."""

    id: int
    name: str
    namespace: str
    started_at: datetime
    beat_at: datetime
    lease: float
    concurrency: int
    handlers: list[str]
    namespaces: list[str]
    """The namespaces it works for; `*` means all."""
    version: str
    generation: str | None = None
    ended_at: datetime | None = None
    ended_how: str | None = None
    draining_at: datetime | None = None
    holding: int = 0
    alive: bool = False
