"""The rows of calendars, and the lock under which schedules are stored that use them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from duly.domain.schedules.calendars import CalendarChanged, StoredCalendar
from duly.domain.time.business_days import decode_days
from duly.stores.database import Session


def calendar_of(row: Mapping[str, Any]) -> StoredCalendar:
    """A calendar from its row."""
    return StoredCalendar(
        name=row["name"],
        days=decode_days(row["days"]),
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


async def require_unchanged(
    session: Session, namespace: str, calendars: Collection[StoredCalendar]
) -> None:
    """Keep the calendars as they are until the end of the transaction.

    CalendarChanged if one is another by now: its days were read before. Call it before a schedule
    is locked, in the order in which a change of a calendar locks.
    """
    for each in calendars:
        rows = await session.fetch("calendars.share", namespace=namespace, name=each.name)
        if not rows or rows[0][0] != each.version:
            raise CalendarChanged(each.name)
