"""The registry of Python handlers, and how they are called."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any

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
from duly.domain.deliveries.results import answer_with
from duly.domain.endpoints.limits import NO_LIMITS, DeclaredLimits
from duly.domain.events import Event, HandlerOverran
from duly.errors import InvalidInput
from duly.ports import Execution
from duly.records.reason import Reason
from duly.records.retry_plan import RetryPlan
from duly.records.target import HandlerTarget
from duly.tracebacks import traceback_text
from duly.transports.handlers.arguments import CallStyle, style_of
from duly.transports.handlers.deadlines import Deadlines
from duly.transports.handlers.failures import failed, failure_of, has_waited_in_vain

DEFAULT_TIMEOUT = 300.0
COMPLETED, RELEASED = Completed(), Released()
COMPLETED_UNKEPT = Completed(has_result=True)
CONTENDED = Deferred(1.0)


Function = Callable[..., Any]


class RegisteredHandler(msgspec.Struct, frozen=True):
    """A registered function and its options."""

    name: str
    function: Function
    plan: RetryPlan
    timeout: float
    is_async: bool
    style: CallStyle
    deadlines: Deadlines
    keeps_result: bool
    limits: DeclaredLimits


class Handlers:
    """The transport that calls the handlers of this process."""

    def __init__(
        self,
        run_in_thread: Callable[[Callable[[], Any]], Future[Any]],
        emit: Callable[[Event], None],
        default: RetryPlan = retry.DEFAULT,
    ) -> None:
        self._handlers: dict[str, RegisteredHandler] = {}
        self._run_in_thread = run_in_thread
        self._emit = emit
        self._default = default

    def add(
        self,
        name: str,
        function: Function,
        plan: RetryPlan | None = None,
        timeout: float | None = None,
        *,
        keep_result: bool = True,
        limits: DeclaredLimits = NO_LIMITS,
    ) -> RegisteredHandler:
        """Register a function under a name that is not in use yet."""
        checked_name("handler", name)
        style = style_of(function)
        if name in self._handlers:
            raise InvalidInput("handler", f"{name!r} is registered already; take another name")
        if timeout is not None and not 0 < timeout <= 86400:
            raise InvalidInput("timeout", f"{timeout!r} is not above 0 and at most 86400 seconds")
        self._handlers[name] = added = RegisteredHandler(
            name,
            function,
            plan or self._default,
            timeout or DEFAULT_TIMEOUT,
            inspect.iscoroutinefunction(function),
            style,
            Deadlines(timeout or DEFAULT_TIMEOUT, self._report_overrun),
            keep_result,
            limits,
        )
        return added

    def _report_overrun(self, execution: Execution) -> None:
        """Report an attempt that still runs after its deadline."""
        execution.report_overrun()
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
        if isinstance(function, HandlerTarget):
            return function.name
        for handler in self._handlers.values():
            if handler.function is function:
                return handler.name
        self.add(function.__name__, function)
        return function.__name__

    def check_schedule(self, name: str, payload: Any) -> None:
        """InvalidInput if occurrences with this payload would not fit the handler."""
        self._handlers[name].style.check_schedule(payload)

    def serves(self) -> Sequence[str]:
        """The names of the handlers of this process."""
        return list(self._handlers)

    def limits(self) -> dict[str, DeclaredLimits]:
        """The limits of all handlers of this process, by name; also of those without any."""
        return {name: each.limits for name, each in self._handlers.items()}

    def taking(self, payload: bytes) -> Sequence[str]:
        """The names of the handlers that can be called with this payload."""
        return [name for name, each in self._handlers.items() if each.style.fits(payload)]

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
            given, named = handler.style.arguments(execution)
        except Exception as error:
            return failed(Reason.SERIALIZATION_ERROR, f"{type(error).__name__}: {error}", error)
        if failpoints.armed or not handler.is_async:
            call = self._call(handler, partial(handler.function, *given, **named), execution)
        else:
            call = handler.function(*given, **named)
        handler.deadlines.add(execution)
        try:
            result = await call
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
        if is_late:
            return _timed_out(handler, None)
        return COMPLETED if result is None else _completed(handler, result)

    def _failure(
        self, handler: RegisteredHandler, execution: Execution, error: BaseException
    ) -> Outcome:
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
        self, handler: RegisteredHandler, function: Callable[[], Any], execution: Execution
    ) -> Any:
        await failpoints.hit("handler.enter")
        if handler.is_async:
            result = await function()
        else:
            result = await self._call_in_thread(handler, function, execution)
        await failpoints.hit("handler.exit")
        return result

    async def _call_in_thread(
        self, handler: RegisteredHandler, function: Callable[[], Any], execution: Execution
    ) -> Any:
        call = partial(copy_context().run, function)
        result = await self._wait_for_thread(self._run_in_thread(call), handler, execution)
        return await result if isinstance(result, Awaitable) else result

    async def _wait_for_thread(
        self, call: Future[Any], handler: RegisteredHandler, execution: Execution
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


def _completed(handler: RegisteredHandler, result: Any) -> Outcome:
    if not handler.keeps_result:
        return COMPLETED_UNKEPT
    try:
        return Completed(answer_with(result), has_result=True)
    except InvalidInput as error:
        # Not again by itself: the handler has done its work, and would return the same.
        problem = (
            f"{handler.name} returned what cannot be kept: {error.problem}; return less, or "
            "register it with keep_result=False"
        )
        return Failed(Reason.SERIALIZATION_ERROR, problem, again=False)


def _timed_out(handler: RegisteredHandler, traceback: str | None) -> Failed:
    problem = f"it took longer than {handler.timeout:g} seconds"
    return Failed(Reason.TIMEOUT_EXCEEDED, problem, traceback=traceback)


class NeverBegan(Exception):
    """The call was cancelled before a thread started it."""
