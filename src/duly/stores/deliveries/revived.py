"""Dead letters outside of streams that are retried, one or some at a time, in a transaction."""

from __future__ import annotations

from collections.abc import Sequence

from duly.domain.deliveries.unique import key_waits
from duly.ports import BY_OPERATOR, Cause, Retry
from duly.stores import unique_keys
from duly.stores.database import Session


async def retry_one(session: Session, namespace: str, id: str, retry: Retry) -> bool:
    """Retry one; False if it is not dead, Conflict if another with its unique key waits."""
    moved, taken = await retry_some(session, namespace, [id], retry)
    if id in taken:
        raise key_waits(id, taken[id])
    return bool(moved)


async def retry_some(
    session: Session,
    namespace: str,
    ids: Sequence[str],
    retry: Retry,
    cause: Cause = BY_OPERATOR,
) -> tuple[set[str], dict[str, str]]:
    """Retry some.

    Returns which were retried, and those that were not because another delivery with the same
    unique key waits, with that one.
    """
    keys, taken = await unique_keys.make_room(session, ids)
    rows = await session.fetch(
        "dead_letters.retry",
        "any",
        ids=[id for id in ids if id not in taken],
        namespace=namespace,
        reset=retry.reset,
        spread=retry.spread,
        **cause.parameters,
    )
    moved = {row[0] for row in rows}
    if keys:
        await unique_keys.settle_in(session, keys, moved)
    return moved, taken
