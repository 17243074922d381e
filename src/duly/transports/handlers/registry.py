"""The registry of Python handlers, the delivery object they receive, and how they are called."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

import duly.failpoints as failpoints
from duly.domain.checks import checked_name
from duly.domain.deliveries import retry
from duly.domain.deliveries.failures import Fail, Retry
from duly.domain.deliveries.outcomes import (
    STORE_AWAY,
    Completed,
    Deferred,
    Failed,
    Outcome,
    Released,
)
from duly.domain.events import Event, HandlerOverran
from duly.domain.schedules.schedule import Occasion, decode_occasion
from duly.errors import InvalidInput
from duly.ports import Execution
from duly.records.delivery import late_by
from duly.records.reason import Reason
from duly.records.retry_plan import RetryPlan
from duly.tracebacks import traceback_text
from duly.transports.handlers.deadlines import Deadlines
from duly.transports.handlers.failures import failed, failure_of, has_waited_in_vain
from duly.transports.handlers.functions import checked_function, first_parameter
from duly.transports.handlers.steps import HandlerStep, do
from duly.transports.handlers.transactions import HandlerTransaction, for_handler

Payload = TypeVar("Payload")
DEFAULT_TIMEOUT = 300.0
COMPLETED, RELEASED = Completed(), Released()
CONTENDED = Deferred(1.0)


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
        """The delivery's deduplication key, if any."""
        return self._execution.claimed.key

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


Function = Callable[[Any], Any]


class Handler(msgspec.Struct, frozen=True):
    """A registered function and its options."""

    name: str
    function: Function
    plan: RetryPlan
    timeout: float
    is_async: bool
    decode: Callable[[bytes], Any]
    deadlines: Deadlines


class Handlers:
    """The transport that calls the handlers of this process."""

    def __init__(
        self,
        run_in_thread: Callable[[Callable[[], Any]], Future[Any]],
        emit: Callable[[Event], None],
        default: RetryPlan = retry.DEFAULT,
    ) -> None:
        self._handlers: dict[str, Handler] = {}
        self._run_in_thread = run_in_thread
        self._emit = emit
        self._default = default

    def add(
        self, name: str, function: Function, plan: RetryPlan | None, timeout: float | None
    ) -> None:
        """Register a function under a name that is not in use yet."""
        checked_name("handler", name)
        checked_function(function)
        if name in self._handlers:
            raise InvalidInput("handler", f"{name!r} is registered already; take another name")
        if timeout is not None and not 0 < timeout <= 86400:
            raise InvalidInput("timeout", f"{timeout!r} is not above 0 and at most 86400 seconds")
        self._handlers[name] = Handler(
            name,
            function,
            plan or self._default,
            timeout or DEFAULT_TIMEOUT,
            inspect.iscoroutinefunction(function),
            payload_decoder(function),
            Deadlines(timeout or DEFAULT_TIMEOUT, self._report_overrun),
        )

    def _report_overrun(self, execution: Execution) -> None:
        """Emit HandlerOverran for an attempt that still runs after its deadline."""
        handler = self._handlers[execution.target]
        self._emit(
            HandlerOverran(
                delivery=execution.claimed.id,
                target=execution.target,
                stream=execution.claimed.stream,
                timeout=handler.timeout,
                in_thread=not handler.is_async,
                namespace=execution.foreign,
            )
        )

    def reset(self) -> None:
        """Forget the previous event loop and the attempts on it."""
        for handler in self._handlers.values():
            handler.deadlines.reset()

    def name_of(self, function: Function) -> str:
        """The handler name of a function, which is first registered if it was not yet."""
        for handler in self._handlers.values():
            if handler.function is function:
                return handler.name
        self.add(function.__name__, function, None, None)
        return function.__name__

    def serves(self) -> Sequence[str]:
        """The names of the handlers of this process."""
        return list(self._handlers)

    def reaches(self, target: str) -> bool:
        """Whether the handler is registered in this process."""
        return target in self._handlers

    def plan(self, target: str, namespace: str) -> RetryPlan:  # noqa: ARG002 - same in all
        """The handler's retry plan."""
        handler = self._handlers.get(target)
        return self._default if handler is None else handler.plan

    async def attempt(self, execution: Execution) -> Outcome:
        """Decode the payload, call the handler within its timeout, and return the outcome."""
        handler = self._handlers[execution.target]
        try:
            payload = handler.decode(execution.claimed.payload)
        except Exception as error:
            return failed(Reason.SERIALIZATION_ERROR, f"{type(error).__name__}: {error}", error)
        delivery: HandledDelivery[Any] = HandledDelivery(execution, payload)
        if failpoints.armed or not handler.is_async:
            call = self._call(handler, delivery, execution)
        else:
            call = handler.function(delivery)
        return await self._with_deadline(handler, call, execution)

    async def _with_deadline(
        self, handler: Handler, call: Awaitable[Any], execution: Execution
    ) -> Outcome:
        handler.deadlines.add(execution)
        try:
            await call
        except asyncio.CancelledError as error:
            if not handler.deadlines.passed(execution):
                if execution.task.cancelling():
                    raise
                # The attempt itself was not cancelled, but something that the handler awaited.
                return failure_of(error)
            return _timed_out(handler, traceback_text(error))
        except NeverBegan:
            return RELEASED
        except (Exception, SystemExit) as error:
            return self._failure(handler, execution, error)
        finally:
            is_late = handler.deadlines.remove(execution)
        return _timed_out(handler, None) if is_late else COMPLETED

    def _failure(self, handler: Handler, execution: Execution, error: BaseException) -> Outcome:
        if execution.is_store_away(error):
            return STORE_AWAY
        if has_waited_in_vain(error, execution):
            return CONTENDED
        # Before Python 3.13, a TaskGroup that fails leaves the count of its task's cancellations
        # too high.
        was_stopped = execution.is_stopping and execution.task.cancelling()
        was_stopped = was_stopped and not handler.deadlines.passed(execution)
        if was_stopped and handler.is_async and not isinstance(error, Fail | Retry):
            # The handler was cancelled by the stop and failed while it cleaned up: the delivery is
            # not to blame.
            return RELEASED
        return failure_of(error)

    async def _call(
        self, handler: Handler, delivery: HandledDelivery[Any], execution: Execution
    ) -> None:
        await failpoints.hit("handler.enter")
        if handler.is_async:
            await handler.function(delivery)
        else:
            await self._call_in_thread(handler, delivery, execution)
        await failpoints.hit("handler.exit")

    async def _call_in_thread(
        self, handler: Handler, delivery: HandledDelivery[Any], execution: Execution
    ) -> None:
        call = partial(copy_context().run, handler.function, delivery)
        result = await self._wait_for_thread(self._run_in_thread(call), handler, execution)
        if isinstance(result, Awaitable):
            await result

    async def _wait_for_thread(
        self, call: Future[Any], handler: Handler, execution: Execution
    ) -> Any:
        """Wait until the thread has ended, even if the attempt is cancelled.

        A thread cannot be stopped. Its lane stays held while it runs, so that neither another
        attempt nor the next delivery of its stream runs at the same time.
        """
        while True:
            try:
                return await asyncio.wrap_future(call)
            except asyncio.CancelledError:
                if call.cancel():
                    raise NeverBegan from None
                if call.done():
                    return call.result()
                if handler.deadlines.passed(execution):
                    handler.deadlines.overran(execution)


def _timed_out(handler: Handler, traceback: str | None) -> Failed:
    problem = f"it took longer than {handler.timeout:g} seconds"
    return Failed(Reason.TIMEOUT_EXCEEDED, problem, traceback=traceback)


class NeverBegan(Exception):
    """The call was cancelled before a thread started it."""


def payload_decoder(function: Function) -> Callable[[bytes], Any]:
    """The decoder for the type in `delivery: duly.Delivery[Order]`.

    msgspec decodes its structs, dataclasses, typed dicts and plain types; a pydantic model decodes
    itself; without a type the payload is plain JSON.
    """
    wanted = _payload_type(function)
    if wanted is Any:
        return msgspec.json.Decoder().decode
    validate = getattr(wanted, "model_validate_json", None)
    if callable(validate):
        return typing.cast("Callable[[bytes], Any]", validate)
    return msgspec.json.Decoder(wanted).decode


def _payload_type(function: Function) -> Any:
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):  # a name imported for type checking only; a callable object
        return Any
    hint = hints.get(first_parameter(function) or "", Any)
    if typing.get_origin(hint) is HandledDelivery:
        return typing.get_args(hint)[0]
    return Any
