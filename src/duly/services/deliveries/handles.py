"""Handles of accepted deliveries, with which a caller waits for their ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar

from duly.domain import checks
from duly.domain.deliveries.states import FINISHED
from duly.domain.time.durations import duration
from duly.errors import Conflict, DulyError, InvalidInput
from duly.ports import Clock
from duly.records.delivery import Accepted, Delivery, DeliveryDetail
from duly.records.state import State

LONGEST_WAIT = 60.0
"""Seconds that one call waits, also one of the HTTP API; callers repeat it."""
Result = TypeVar("Result", covariant=True)


def wait_seconds(text: str | None) -> float:
    """How long one call waits, given as in `30s`; 0 if nothing is given."""
    seconds = 0.0 if text is None else duration("wait", text).total_seconds()
    if seconds > LONGEST_WAIT:
        raise InvalidInput("wait", f"{text} is too long; give up to 60s, and ask again")
    return seconds


class NotEnded(DulyError, TimeoutError):
    """A delivery has not ended within the given time; it goes on."""


class DeliveryFailed(DulyError):
    """A delivery that was waited for has ended without success; `delivery` has all about it."""

    def __init__(self, delivery: DeliveryDetail) -> None:
        problem = ": ".join(each for each in (delivery.reason, delivery.error) if each)
        super().__init__(f"delivery {delivery.id} is {delivery.state}; {problem}".rstrip("; "))
        self.delivery = delivery

    def __reduce__(self) -> tuple[type[DeliveryFailed], tuple[DeliveryDetail]]:
        return DeliveryFailed, (self.delivery,)


class AcceptedDeliveries(Protocol):
    """What a handle needs of the deliveries of an App or a client."""

    async def get(self, id: str) -> Delivery: ...
    async def detail(self, id: str, *, wait: float = 0) -> DeliveryDetail: ...
    async def wait(
        self, id: str, *, timeout: float | timedelta | None = None
    ) -> DeliveryDetail: ...
    async def cancel(self, id: str) -> Delivery: ...


async def wait_for(
    deliveries: AcceptedDeliveries, clock: Clock, id: str, timeout: float | timedelta | None
) -> DeliveryDetail:
    """The completed delivery; DeliveryFailed if it ended otherwise, NotEnded if time is over."""
    seconds = math.inf if timeout is None else checks.checked_wait("timeout", timeout)
    until = clock.monotonic() + seconds
    while True:
        left = max(until - clock.monotonic(), 0.0)
        found = await deliveries.detail(id, wait=min(left, LONGEST_WAIT))
        if found.state is State.COMPLETED:
            return found
        if found.state in FINISHED:
            raise DeliveryFailed(found)
        if clock.monotonic() >= until:
            raise NotEnded(f"delivery {id} is {found.state}, {seconds:g} seconds later; it goes on")


class Handle(Accepted, Generic[Result], frozen=True, kw_only=True, dict=True):
    """The confirmation of a delivery; wait with it for the end and what the handler returned."""

    async def wait(self, timeout: float | timedelta | None = None) -> DeliveryDetail:
        """The delivery when it has completed.

        DeliveryFailed if it is a dead letter or was cancelled, NotEnded after `timeout` seconds;
        without one it waits for as long as it takes.
        """
        return await self._deliveries.wait(self.id, timeout=timeout)

    async def result(self, timeout: float | timedelta | None = None) -> Result:
        """What the handler returned, decoded by its type; it waits, and raises, like `wait`."""
        found = await self.wait(timeout)
        decode: Callable[[Any], Result] | None = vars(self)["decode"]
        return found.result if decode is None else decode(found.result)

    async def get(self) -> Delivery:
        """The delivery as it is now."""
        return await self._deliveries.get(self.id)

    async def cancel(self) -> Delivery:
        """Cancel the delivery."""
        return await self._deliveries.cancel(self.id)

    @property
    def _deliveries(self) -> AcceptedDeliveries:
        found: AcceptedDeliveries = found_in(self)
        return found


def found_in(handle: Accepted) -> Any:
    """The deliveries that a handle was made with."""
    if "deliveries" not in vars(handle):
        raise Conflict(
            f"this handle is a copy, which cannot wait; call app.deliveries.wait({handle.id!r})"
        )
    return vars(handle)["deliveries"]


Made = TypeVar("Made", bound=Accepted)


def made_of(
    form: type[Made], accepted: Accepted, deliveries: object, decode: Callable[[Any], Any] | None
) -> Made:
    """A handle of this class."""
    handle = form(
        id=accepted.id, state=accepted.state, due_at=accepted.due_at, known=accepted.known
    )
    # Not fields: a handle is encoded and shown like the confirmation that it is.
    kept = vars(handle)
    kept["deliveries"], kept["decode"] = deliveries, decode
    return handle


def handle_of(
    accepted: Accepted,
    deliveries: AcceptedDeliveries,
    decode: Callable[[Any], Any] | None = None,
) -> Handle[Any]:
    """The handle of a delivery; `decode` turns the JSON of its result into the handler's type."""
    return made_of(Handle, accepted, deliveries, decode)
