"""New deliveries for a server: one, or many in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Unpack

import msgspec

from duly.client.deliveries import Deliveries
from duly.client.problems import Missing, whole
from duly.client.requester import Requester
from duly.client.targets import contents, destination, refusal
from duly.domain import checks
from duly.domain.deliveries.retry import encode_checked
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
        body = whole(_body(target, payload, **options))
        try:
            accepted = await self._requester.post(Accepted, "deliveries", body=body, once=True)
        except InvalidInput as error:
            raise refusal(target, error) from error
        return handle_of(accepted, self._deliveries)

    async def deliver_many(self, items: Iterable[Item]) -> Sequence[Accepted]:
        """Accept up to 10,000 deliveries in one transaction: all of them or none.

        An item is `(target, payload)`, or a mapping of the arguments of `deliver`.
        """
        bodies = [_item(each) for each in items]
        if len(bodies) > MOST:
            raise InvalidInput("items", f"{len(bodies):,} are too many; give at most {MOST:,}")
        if not bodies:
            return []
        data = b"[%s]" % b",".join(map(whole, bodies))
        place = ("deliveries", "bulk")
        try:
            bulk = await self._requester.post(Bulk, *place, body=data, once=True, atomic=True)
        except InvalidInput as error:
            missing = error.field == "target" and error.problem.startswith("no endpoint ")
            raise (Missing(error.problem) if missing else error) from error
        return bulk.items


def _item(item: Item) -> dict[str, Any]:
    if isinstance(item, tuple) and len(item) == 2:
        return _body(*item)
    try:
        return _body(**item)
    except TypeError as error:
        raise InvalidInput(
            "items", f"{error}; give (target, payload), or deliver's arguments as a mapping"
        ) from error


def _body(target: Target, payload: Any = None, **options: Any) -> dict[str, Any]:
    """A delivery as the API takes it."""
    if options.get("at") is not None and options.get("after") is not None:
        raise InvalidInput("at", "give either at or after, not both")
    body: dict[str, Any] = {"target": destination(target), "payload": contents(payload)}
    for name, value in options.items():
        check = CHECKS.get(name)
        body[name] = value if check is None or value is None else check(value)
    return body
