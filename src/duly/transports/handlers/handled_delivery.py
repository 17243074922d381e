"""The delivery as a handler sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from duly.domain.deliveries.progress import checked_note, checked_share
from duly.domain.schedules.schedule import Occasion, decode_occasion
from duly.ports import Execution
from duly.records.delivery import late_by
from duly.transports.handlers.steps import HandlerStep, do, is_on_loop
from duly.transports.handlers.transactions import HandlerTransaction, for_handler

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # So that `duly.Delivery` alone is a complete type.
    Payload = TypeVar("Payload", default=object)
else:
    from typing import TypeVar

    Payload = TypeVar("Payload")


class Done:
    """Awaiting it does not wait."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


DONE = Done()


class HandledDelivery(Generic[Payload]):
    """The delivery as a handler sees it."""

    __slots__ = ("_execution", "payload")

    def __init__(self, execution: Execution, payload: Payload) -> None:
        self._execution = execution
        self.payload = payload

    @property
    def id(self) -> str:
        """The delivery's id, the same on every attempt; use it as an idempotency key."""
        return self._execution.claimed.id

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1."""
        return self._execution.claimed.attempt + 1

    @property
    def target(self) -> str:
        """The handler's name."""
        return self._execution.target

    @property
    def namespace(self) -> str:
        """The delivery's namespace."""
        return self._execution.namespace

    @property
    def key(self) -> str | None:
        """The delivery's key, unique or not, if any."""
        return self._execution.claimed.key or self._execution.claimed.unique_key

    @property
    def stream(self) -> str | None:
        """The delivery's stream, if any."""
        return self._execution.claimed.stream

    @property
    def due_at(self) -> datetime:
        """When the delivery was first due."""
        return self._execution.claimed.due_at

    @property
    def late_by(self) -> timedelta:
        """How long after `due_at` this attempt started."""
        return late_by(self._execution.claimed.due_at, self._execution.started_at)

    @property
    def schedule(self) -> str | None:
        """The schedule that created the delivery, if any."""
        return None if self._occasion is None else self._occasion.schedule

    @property
    def scheduled_for(self) -> datetime | None:
        """The occurrence according to the schedule's rule; `due_at` may be spread after it."""
        return None if self._occasion is None else self._occasion.scheduled_for

    @property
    def merged(self) -> int:
        """The number of missed occurrences merged into this delivery, itself not counted."""
        return 0 if self._occasion is None else self._occasion.merged

    @property
    def _occasion(self) -> Occasion | None:
        stored = self._execution.claimed.occasion
        return None if stored is None else decode_occasion(stored)

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked to cancel this delivery.

        An async handler gets `asyncio.CancelledError` then. A plain one, which cannot be stopped,
        looks at this now and then; if it has seen it and returns None, or raises, the delivery
        ends as cancelled.
        """
        if self._execution.is_cancelled:
            self._execution.has_obeyed = True
        return self._execution.is_cancelled

    def progress(self, share: float, note: str | None = None) -> Awaitable[None]:
        """Report how far the attempt is, from 0 to 1; written at most once a second.

        `await delivery.progress(0.4, "page 4 of 10")`; in a plain handler without `await`, or
        `delivery.sync.progress(...)`.
        """
        self._execution.report(checked_share(share), checked_note(note))
        # Type checkers tell async handlers to await it.
        return DONE if is_on_loop() else None  # type: ignore[return-value]

    @property
    def sync(self) -> PlainDelivery:
        """The methods that only async handlers await, for plain handlers."""
        return PlainDelivery(self)

    @property
    def transaction(self) -> HandlerTransaction:
        """A transaction that is committed together with the delivery's completion."""
        return HandlerTransaction(self._execution)

    def once(self, consumer: str, message_id: str | None = None) -> Any:
        """Receive a message in `transaction`; a duplicate has the result of the first one.

        `message_id` is the sender's id; the default is this delivery's key, or else its id. Await
        it; in a plain handler call it, and the methods of the message, without `await`.
        """
        claimed = self._execution.claimed
        if message_id is None:
            message_id = claimed.key or claimed.id
        receive = partial(self._execution.receive, message_id, consumer)
        return for_handler(self._execution, receive)

    def step(self, name: str, *, late: bool = False) -> HandlerStep:
        """A named step; it is recorded when its block ends and not run again after that.

        `async with delivery.step("charge") as step:` and inside `if not step.done: ...`; in a plain
        handler `with`. With `late` it is recorded with the attempt's outcome instead of at once.
        """
        return HandlerStep(self._execution, name, late)

    def do(
        self, name: str, function: Callable[..., Any], *arguments: Any, late: bool = False
    ) -> Any:
        """Call a function as a step, unless that is done; returns the result of the first call.

        `await delivery.do("charge", charge, order)`; in a plain handler without `await`.
        """
        step = HandlerStep(self._execution, name, late)
        return do(step, self._execution, lambda: function(*arguments))


class PlainDelivery:
    """What a delivery offers to be awaited, for plain handlers."""

    def __init__(self, delivery: HandledDelivery[Any]) -> None:
        self._delivery = delivery

    def progress(self, share: float, note: str | None = None) -> None:
        """Report how far the attempt is, from 0 to 1; written at most once a second."""
        self._delivery.progress(share, note)
