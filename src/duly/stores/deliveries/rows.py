"""Turns rows of the ledger and its history into records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from duly.domain.deliveries import retry
from duly.domain.deliveries.identifiers import worker_of
from duly.domain.deliveries.results import answer_and_result
from duly.domain.endpoints.webhooks import decode_webhook
from duly.domain.schedules.schedule import decode_occasion
from duly.domain.turns import keys_of
from duly.records.attempt import HistoryEntry
from duly.records.delivery import Delivery, late_by
from duly.records.recovery import Disposition
from duly.records.retry_plan import RetryPlan
from duly.records.state import State
from duly.records.unique import Unique
from duly.safe_text import shown_url


def delivery_of(found: Mapping[str, Any], *, payload: bool = True) -> Delivery:
    """A delivery from its row, with its payload if that is wanted."""
    row = dict(found)
    tags, token = row.pop("tags"), row.pop("token")
    occasion, address = row.pop("occasion"), row.pop("address")
    content = row.pop("payload")
    row.pop("schedule")
    fair_key, limit_key = keys_of(row.pop("turn"))
    due_at, started_at = row["due_at"], row["started_at"]
    return Delivery(
        **row
        | {
            "id": str(row["id"]),
            "batch": row["batch"] and str(row["batch"]),
            "state": State(row["state"]),
            "disposition": row["disposition"] and Disposition(row["disposition"]),
            "tags": msgspec.json.decode(tags) if tags else [],
            "late_seconds": started_at and late_by(due_at, started_at).total_seconds(),
            "worker": None if token is None else worker_of(token),
            "crashes": row["crashes"] or 0,
            "unique": row["unique"] and Unique(row["unique"]),
            "payload_json": msgspec.Raw(content) if payload else msgspec.UNSET,
            "retry": _plan(row["retry"]),
            "fair_key": fair_key,
            "limit_key": limit_key,
            "url": None if address is None else shown_url(decode_webhook(address).url),
        }
        | _occasion(occasion)
    )


def _plan(stored: str | None) -> RetryPlan | None:
    try:
        return None if stored is None else retry.decode(stored)
    except msgspec.MsgspecError:
        # The worker that attempts it logs this and uses the target's plan.
        return None


def _occasion(stored: str | None) -> dict[str, Any]:
    if stored is None:
        return {}
    occasion = decode_occasion(stored)
    return {
        "schedule": occasion.schedule,
        "scheduled_for": occasion.scheduled_for,
        "merged": occasion.merged,
    }


BEFORE = {
    "cancelled": State.PENDING,
    "expired": State.PENDING,
    "skipped": State.PENDING,
    "retried": State.DEAD,
    "dead_lettered": State.PENDING,
    "edited": State.PENDING,
    "discarded": State.DEAD,
    "held": State.DEAD,
    "given_up": State.DEAD,
    "hold_released": State.DEAD,
    "superseded": State.PENDING,
    "replaced": State.PENDING,
}
AFTER = {
    "completed": State.COMPLETED,
    "dead": State.DEAD,
    "dead_lettered": State.DEAD,
    "cancelled": State.CANCELLED,
    "discarded": State.CANCELLED,
    "expired": State.CANCELLED,
    "skipped": State.CANCELLED,
    "superseded": State.CANCELLED,
    "held": State.DEAD,
    "given_up": State.DEAD,
    "hold_released": State.DEAD,
}


def _before(outcome: str, token: int | None) -> State:
    if outcome == "cancelled" and token is not None:
        return State.PROCESSING
    return BEFORE.get(outcome, State.PROCESSING)


def entry_of(row: Mapping[str, Any]) -> HistoryEntry:
    """One entry of a delivery's history from its row."""
    token = row["token"]
    answer, result = answer_and_result(row["answer"])
    return HistoryEntry(
        **dict(row) | {"answer": answer, "result": result},
        before=_before(row["outcome"], token),
        after=AFTER.get(row["outcome"], State.PENDING),
        worker=None if token is None else worker_of(token),
    )
