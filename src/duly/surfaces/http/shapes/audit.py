"""The audit trail as the API shows it."""

from __future__ import annotations

import msgspec

from duly.ports import AuditEntry


class AuditPage(msgspec.Struct, frozen=True):
    """Entries, the latest first; `next` is the cursor of the page after."""

    items: list[AuditEntry]
    next: str | None
