"""Which batches take members, in the transaction that adds them."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.batches import batch_closed, no_batch
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.ports import Refusal
from duly.stores.database import Session

Refusals = dict[str | None, Refusal]


async def refusals(
    session: Session, namespace: str, requests: Sequence[PreparedDelivery]
) -> Refusals:
    """The batches that take no members, each with the error.

    The others cannot be closed before the session's transaction ends.
    """
    ids = {each.batch for each in requests if each.batch is not None}
    if not ids:
        return {}
    rows = await session.fetch("batches.hold", ids=sorted(ids), namespace=namespace)
    found = {id: bool(is_open) for id, is_open in rows}
    return {
        id: batch_closed(id) if id in found else no_batch(id) for id in ids if not found.get(id)
    }
