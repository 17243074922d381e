"""Audit entries: who changed what, and when."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change: actor, action and subject."""

    id: int
    done_at: datetime
    actor: str
    action: str
    subject: str
    detail: Any = None
