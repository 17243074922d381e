"""Python handlers: the registry, the object they are given, and how their failures are read."""

from __future__ import annotations

import asyncio
import inspect
import traceback
import typing
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

import duly.failpoints as failpoints
from duly.domain import retry
from duly.domain.delivery import late_by
from duly.domain.errors import InvalidInput, StoreUnavailable
from duly.domain.failures import Fail, Reason, Retry
from duly.domain.outcomes import Completed, Failed, Outcome
from duly.domain.payloads import checked_name
from duly.domain.retry import RetryPlan
from duly.domain.schedule import Occasion, decode_occasion
from duly.ports import Execution, Message, Transaction
from duly.transports.deadlines import Deadlines
from duly.transports.steps import HandlerStep, do

Payload = TypeVar("Payload")
DEFAULT_TIMEOUT = 300.0
COMPLETED = Completed()


class HandledDelivery(Generic[Payload]):
    """The delivery as a handler sees it."""

    __slots__ = ("_execution", "payload")

    def __init__(self, execution: Execution, payload: Payload) -> None:
        self._execution = execution
        self.payload = payload

    @property
    def id(self) -> str:
        """The same on every attempt: give it to others as the idempotency key."""
        return self._execution.claimed.id

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self._execution.claimed.attempt + 1

    @property
    def target(self) -> str:
        """The handler's name."""
        return self._execution.target

    @property
    def key(self) -> str | None:
        """The key under which it was accepted."""
        return self._execution.claimed.key

    @property
    def stream(self) -> str | None:
        """The stream whose deliveries run in order, if it belongs to one."""
        return self._execution.claimed.stream

    @property
    def due_at(self) -> datetime:
        """When it was first due."""
        return self._execution.claimed.due_at

    @property
    def late_by(self) -> timedelta:
        """How long after that this attempt started."""
        return late_by(self._execution.claimed.due_at, self._execution.started_at)

    @property
    def schedule(self) -> str | None:
        """The schedule that made it, if one did."""
        return None if self._occasion is None else self._occasion.schedule

    @property
    def scheduled_for(self) -> datetime | None:
        """The moment that the schedule's rule names; due_at may be spread after it."""
        return None if self._occasion is None else self._occasion.scheduled_for

    @property
    def merged(self) -> int:
        """How many missed occurrences of its schedule this one stands for, besides itself."""
        return 0 if self._occasion is None else self._occasion.merged

    @property
    def _occasion(self) -> Occasion | None:
        stored = self._execution.claimed.occasion
        return None if stored is None else decode_occasion(stored)

    @property
    def transaction(self) -> HandlerTransaction:
        """A transaction that is committed together with the completion, or not at all."""
        return HandlerTransaction(self._execution)

    async def once(self, consumer: str, message_id: str | None = None) -> Message:
        """Take a message for a consumer in `transaction`; a duplicate has the first one's result.

        The message's id is its sender's, or else this delivery's key or id.
        """
        claimed = self._execution.claimed
        if message_id is None:
            message_id = claimed.key or claimed.id
        return await self._execution.receive(message_id, consumer)

    def step(self, name: str, *, late: bool = False) -> HandlerStep:
        """A named step, which is recorded when its block ends and then done for good.

        `async with delivery.step("charge") as step:` and inside `if not step.done: ...`; in a plain
        handler `with`. `late` records it with the outcome of the attempt instead of at once.
        """
        return HandlerStep(self._execution, name, late)

    def do(
        self, name: str, function: Callable[..., Any], *arguments: Any, late: bool = False
    ) -> Any:
        """Call a function as a step, unless it is done; returns what it returned the first time.

        `await delivery.do("charge", charge, order)`; in a plain handler without `await`.
        """
        step = HandlerStep(self._execution, name, late)
        return do(step, self._execution, lambda: function(*arguments))


class HandlerTransaction:
    """The transaction of a delivery's completion; it begins with its first use.

    `await delivery.transaction.execute("insert ...", value)`, or
    `async with delivery.transaction as transaction: ...` for several. Whatever is written is
    committed when the handler returns, and undone when it raises or its lease was lost.
    """

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    async def execute(self, sql: str, *parameters: Any) -> None:
        """Run one statement; parameters as the database spells them (`?` or `$1`)."""
        await (await self._execution.begin()).execute(sql, *parameters)

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        return await (await self._execution.begin()).fetch(sql, *parameters)

    async def opened(self) -> Transaction:
        """The transaction itself, begun if need be; for `app.deliver(connection=)`."""
        return await self._execution.begin()

    def __await__(self) -> Any:
        return self.opened().__await__()

    async def __aenter__(self) -> Transaction:
        return await self.opened()

    async def __aexit__(self, *error: object) -> None:
        """Nothing ends here: the handler's return commits."""


Function = Callable[[Any], Any]


class Handler(msgspec.Struct, frozen=True):
    """A registered function and how it is called."""

    name: str
    function: Function
    plan: RetryPlan
    timeout: float
    is_async: bool
    decode: Callable[[bytes], Any]
    deadlines: Deadlines


class Handlers:
    """The handlers of this process, as a transport."""

    def __init__(
        self,
        run_in_thread: Callable[[Callable[[], Any]], Future[Any]],
        default: RetryPlan = retry.DEFAULT,
    ) -> None:
        self._handlers: dict[str, Handler] = {}
        self._run_in_thread = run_in_thread
        self._default = default

    def add(
        self, name: str, function: Function, plan: RetryPlan | None, timeout: float | None
    ) -> None:
        """Register a function; a name is taken once."""
        checked_name("handler", name)
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
            Deadlines(timeout or DEFAULT_TIMEOUT),
        )

    def name_of(self, function: Function) -> str:
        """The name under which a function is registered; it gets its own if it has none yet."""
        for handler in self._handlers.values():
            if handler.function is function:
                return handler.name
        self.add(function.__name__, function, None, None)
        return function.__name__

    def serves(self) -> Sequence[str]:
        """The handlers of this process."""
        return list(self._handlers)

    def reaches(self, target: str) -> bool:
        """Whether the handler is in this process."""
        return target in self._handlers

    def plan(self, target: str) -> RetryPlan:
        """The handler's retry plan."""
        handler = self._handlers.get(target)
        return self._default if handler is None else handler.plan

    async def attempt(self, execution: Execution) -> Outcome:
        """Decode, call with a deadline, and read what came of it."""
        handler = self._handlers[execution.target]
        try:
            payload = handler.decode(execution.claimed.payload)
        except Exception as error:
            return Failed(Reason.SERIALIZATION_ERROR, f"{type(error).__name__}: {error}")
        delivery: HandledDelivery[Any] = HandledDelivery(execution, payload)
        if failpoints.armed or not handler.is_async:
            call = self._call(handler, delivery)
        else:
            call = handler.function(delivery)
        return await self._with_deadline(handler, call, execution.task)

    async def _with_deadline(
        self, handler: Handler, call: Awaitable[Any], task: asyncio.Task[Any]
    ) -> Outcome:
        handler.deadlines.add(task)
        try:
            await call
        except asyncio.CancelledError as error:
            if handler.deadlines.passed(task):
                task.uncancel()
                return Failed(
                    Reason.TIMEOUT_EXCEEDED, f"it took longer than {handler.timeout:g} seconds"
                )
            if task.cancelling():
                raise
            # Nobody cancelled this attempt: the handler awaited something that was cancelled.
            return failure_of(error)
        except (Exception, SystemExit) as error:
            return failure_of(error)
        finally:
            handler.deadlines.remove(task)
        return COMPLETED

    async def _call(self, handler: Handler, delivery: HandledDelivery[Any]) -> None:
        await failpoints.hit("handler.enter")
        if handler.is_async:
            await handler.function(delivery)
        else:
            await self._call_in_thread(handler, delivery)
        await failpoints.hit("handler.exit")

    async def _call_in_thread(self, handler: Handler, delivery: HandledDelivery[Any]) -> None:
        result = await asyncio.wrap_future(self._run_in_thread(lambda: handler.function(delivery)))
        if isinstance(result, Awaitable):
            await result


def failure_of(error: BaseException) -> Failed:
    """The outcome that an exception of a handler stands for."""
    if isinstance(error, Fail):
        return Failed(error.reason, str(error), again=error.retry)
    if isinstance(error, Retry):
        return Failed(error.reason, str(error), after=error.after)
    if isinstance(error, StoreUnavailable):
        return Failed(Reason.DEPENDENCY_FAILURE, str(error))
    if isinstance(error, ConnectionError):
        return Failed(Reason.TRANSPORT_UNAVAILABLE, _described(error))
    if isinstance(error, TimeoutError):
        return Failed(Reason.TIMEOUT_EXCEEDED, _described(error))
    if isinstance(error, msgspec.ValidationError):
        return Failed(Reason.VALIDATION_FAILURE, _described(error))
    return Failed(Reason.HANDLER_EXCEPTION, _described(error))


def _described(error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" (at {frame.filename}:{frame.lineno})" for frame in last)
    return f"{type(error).__name__}: {error}{place}"


def payload_decoder(function: Function) -> Callable[[bytes], Any]:
    """How a handler's payload is read: by the type in `delivery: duly.Delivery[Order]`.

    msgspec structs, dataclasses, typed dicts and plain types are read by msgspec, pydantic
    models by themselves; without a type it is plain JSON.
    """
    wanted = _payload_type(function)
    if wanted is Any:
        return msgspec.json.Decoder().decode
    validate = getattr(wanted, "model_validate_json", None)
    if callable(validate):
        return typing.cast("Callable[[bytes], Any]", validate)
    return msgspec.json.Decoder(wanted).decode


def _payload_type(function: Function) -> Any:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise InvalidInput(
            "handler", f"{function.__qualname__} takes no argument; it is given the delivery"
        )
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):  # a name of type checking only; an object that is called
        return Any
    hint = hints.get(parameters[0].name, Any)
    if typing.get_origin(hint) is HandledDelivery:
        return typing.get_args(hint)[0]
    return Any
