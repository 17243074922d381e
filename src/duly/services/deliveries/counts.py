"""Counts of deliveries by state, at a cost that does not grow with the ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from duly.errors import InvalidInput
from duly.ports import Filter, Store
from duly.records.delivery import DeliveryCounts
from duly.records.state import State
from duly.records.status import COUNTED_UP_TO, NamespaceStatus

Look = Callable[[], Awaitable[NamespaceStatus]]
"""Reads the status, or returns one that was read a moment ago for somebody else."""
INDEXED = (State.PENDING, State.PROCESSING, State.DEAD)
"""The states that have an index: without a filter all of them are counted, up to the limit."""


async def counts_of(store: Store, look: Look, filter: Filter) -> DeliveryCounts:
    """Deliveries that match, by state; with a filter, of the newest 10,000 deliveries."""
    if filter.state is not None:
        raise InvalidInput("state", "the counts are by state; leave it out")
    found, is_capped = await store.deliveries.counts(filter)
    states = dict.fromkeys(State, 0) | found
    capped = set(State) if is_capped else set()
    if is_capped and filter == Filter():
        states |= await _indexed(store, look)
        capped -= {each for each in INDEXED if states[each] < COUNTED_UP_TO}
    return DeliveryCounts(
        counted_up_to=COUNTED_UP_TO,
        capped=[each for each in State if each in capped],
        states=states,
    )


async def _indexed(store: Store, look: Look) -> dict[State, int]:
    now, behind = await look(), await store.status.behind()
    pending = min(now.due + now.upcoming + behind, COUNTED_UP_TO)
    return {State.PENDING: pending, State.PROCESSING: now.processing, State.DEAD: now.dead}
