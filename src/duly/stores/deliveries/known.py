"""Requests whose id or key belongs to a delivery that exists already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.domain.batches import not_member
from duly.domain.deliveries.delivery import PreparedDelivery
from duly.domain.endpoints.sealed_addresses import SealedAddresses
from duly.errors import Conflict
from duly.ports import Refusal
from duly.records.delivery import Accepted
from duly.records.state import State


class Known:
    """Existing deliveries, found by their id or key."""

    def __init__(self, rows: Sequence[Sequence[Any]], addresses: SealedAddresses) -> None:
        self._addresses = addresses
        # Dictionaries, since comparing thousands of requests with each other takes a second.
        self._by_id = {row[0]: row for row in rows}
        self._by_key = {row[-3]: row for row in rows if row[-3] is not None}

    def answer_to(
        self, request: PreparedDelivery, target: int, refusal: Refusal | None = None
    ) -> Accepted | Refusal:
        """Accepted if the request is the same as an existing one, Conflict if it differs.

        `refusal` is the answer if there is none.
        """
        found = self._by_id.get(request.id) or self._by_key.get(request.key)
        if found is None:
            if refusal is None:
                raise AssertionError(f"{request.id} was neither stored nor known")
            return refusal
        id, *stored, address, batch, _key, due_at, state = found
        if stored != [target, request.payload] or not self._is_same(address, request.address):
            return key_taken(request.key, id)
        if request.batch not in (None, batch):
            return not_member(request.key, id, request.batch)
        known = id != request.id
        return Accepted(id=id, state=State(state), due_at=due_at, known=known)

    def _is_same(self, stored: str | None, given: str | None) -> bool:
        # The same address has another text if it was sealed with another key.
        readable = self._addresses.readable
        return stored == given or readable(stored) == readable(given)


def key_taken(key: str | None, id: str) -> Conflict:
    """The error for a key that belongs to another delivery."""
    return Conflict(
        f"key {key!r} already belongs to delivery {id}, which has another target or payload; "
        "use another key"
    )
