"""New deliveries for a server: one, or many in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Unpack

import msgspec

from duly.client.deliveries import Deliveries
from duly.client.problems import whole
from duly.client.requester import Requester
from duly.client.targets import contents, destination, missing, refusal
from duly.domain import checks
from duly.domain.batches import checked_batch
from duly.domain.deliveries.retry import encode_checked
from duly.domain.deliveries.unique import checked_on_duplicate, checked_scope
from duly.domain.streams.policy import checked_policy
from duly.errors import InvalidInput
from duly.records.delivery import Accepted, DeliveryKeywords
from duly.records.target import Target
from duly.services.deliveries.handles import Handle, handle_of
from duly.services.deliveries.intake import Item

MOST = 10_000
"""Deliveries that a server accepts in one call."""
CHECKS: dict[str, Callable[[Any], object]] = {
    "after": partial(checks.checked_wait, "after"),
    "priority": checks.checked_priority,
    "tags": checks.checked_tags,
    "retry": lambda plan: msgspec.Raw(encode_checked(plan).encode()),
    "on_failure": checked_policy,
    "batch": checked_batch,
    "unique": checked_scope,
    "on_duplicate": checked_on_duplicate,
    "latest": partial(checks.checked_wait, "latest"),
}
"""Checks before a request is sent; the server checks everything."""


class Bulk(msgspec.Struct, frozen=True):
    """The server's answer to many deliveries that were all accepted."""

    items: list[Accepted]


class Intake:
    """Accepts deliveries through one server."""

    def __init__(self, requester: Requester, deliveries: Deliveries) -> None:
        self._requester = requester
        self._deliveries = deliveries

    async def deliver(
        self, target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> Handle[Any]:
        """Accept one delivery; when this returns it is on the server's disk."""
        body = whole(body_of(target, payload, **options))
        try:
            accepted = await self._requester.post(Accepted, "deliveries", body=body, once=True)
        except InvalidInput as error:
            raise refusal(target, error) from error
        return handle_of(accepted, self._deliveries)

    async def deliver_many(
        self, items: Iterable[Item], *, batch: str | None = None
    ) -> Sequence[Accepted]:
        """Accept up to 10,000 deliveries in one transaction: all of them or none.

        An item is `(target, payload)`, or a mapping of the arguments of `deliver`. With a `batch`,
        all of them are its members.
        """
        joined = None if batch is None else checked_batch(batch)
        bodies = [_item(each, joined) for each in items]
        if len(bodies) > MOST:
            raise InvalidInput("items", f"{len(bodies):,} are too many; give at most {MOST:,}")
        if not bodies:
            return []
        data = b"[%s]" % b",".join(map(whole, bodies))
        place = ("deliveries", "bulk")
        try:
            bulk = await self._requester.post(Bulk, *place, body=data, once=True, atomic=True)
        except InvalidInput as error:
            raise missing(error) or error from error
        return bulk.items


def _item(item: Item, batch: str | None) -> dict[str, Any]:
    if isinstance(item, tuple) and len(item) == 2:
        return body_of(*item, batch=batch)
    try:
        body = body_of(**item)
    except TypeError as error:
        raise InvalidInput(
            "items", f"{error}; give (target, payload), or deliver's arguments as a mapping"
        ) from error
    if batch is not None and body.setdefault("batch", batch) not in (None, batch):
        raise InvalidInput("batch", f"an item is for batch {body['batch']}, and not for {batch}")
    return body if batch is None else body | {"batch": batch}


def body_of(
    target: Target, payload: Any = None, **options: Unpack[DeliveryKeywords]
) -> dict[str, Any]:
    """A delivery as the API takes it."""
    if options.get("at") is not None and options.get("after") is not None:
        raise InvalidInput("at", "give either at or after, not both")
    body: dict[str, Any] = {"target": destination(target), "payload": contents(payload)}
    for name, value in options.items():
        check = CHECKS.get(name)
        body[name] = value if check is None or value is None else check(value)
    return body
