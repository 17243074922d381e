"""Steps as used by async handlers on the event loop and plain handlers in a thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

import msgspec

from duly.domain.deliveries.failures import Fail
from duly.domain.deliveries.results import kept_result
from duly.domain.deliveries.steps import checked_step
from duly.errors import Conflict
from duly.ports import Execution
from duly.records.attempt import NOTHING, Step

Result = TypeVar("Result")


class HandlerStep:
    """One step of a handler; use `async with` in an async handler, `with` in a plain one.

    Python cannot skip a block, so the block checks `if not step.done: ...`. The step is recorded
    when the block ends, unless it raises.
    """

    def __init__(self, execution: Execution, name: str, late: bool) -> None:
        self.name = checked_step(name)
        self._execution = execution
        self._late = late
        self._is_entered = self._was_checked = False
        self._recorded: Step | None = None
        self._result_json = NOTHING

    @property
    def done(self) -> bool:
        """Whether the step is done, by an earlier attempt or by this one."""
        if not self._is_entered:
            raise Conflict(f"step {self.name!r} is not begun; write `async with` or `with` first")
        self._was_checked = True
        return self._recorded is not None

    @property
    def result(self) -> Any:
        """The recorded result, decoded from JSON; the same on every attempt."""
        return msgspec.json.decode(
            self._result_json if self._recorded is None else self._recorded.result_json
        )

    def keep(self, result: Any) -> None:
        """Set the result to record, which must be JSON; a step that is done keeps its first one."""
        self._result_json = kept_result(result)

    async def __aenter__(self) -> Self:
        refuse_other_loop(self._execution)
        self._recorded = await self._execution.steps.begin(self.name)
        self._is_entered = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        steps = self._execution.steps
        if self._recorded is not None:
            return
        if kind is not None:
            steps.give_up(self.name)
            return
        self._recorded = await steps.record(self.name, self._result_json, late=self._late)
        if not self._was_checked:
            raise Fail(
                f"step {self.name!r} is recorded, but its block would run again: begin it with "
                f"`if not step.done:`, or call delivery.do({self.name!r}, function)",
                retry=False,
            )

    def __enter__(self) -> Self:
        return waited_for(self._execution, self.__aenter__)

    def __exit__(self, *error: Any) -> None:
        waited_for(self._execution, lambda: self.__aexit__(*error))


def do(step: HandlerStep, execution: Execution, call: Callable[[], Any]) -> Any:
    """Call unless the step is done; returns its result, or on the event loop a coroutine."""
    return _do_on_loop(step, call) if is_on_loop() else _do_in_thread(step, execution, call)


async def _do_on_loop(step: HandlerStep, call: Callable[[], Any]) -> Any:
    async with step:
        if not step.done:
            result = call()
            step.keep(await result if inspect.isawaitable(result) else result)
    return step.result


def _do_in_thread(step: HandlerStep, execution: Execution, call: Callable[[], Any]) -> Any:
    with step:
        if not step.done:
            result = call()
            if inspect.isawaitable(result):
                awaitable = result
                result = waited_for(execution, lambda: _await(awaitable))
            step.keep(result)
    return step.result


async def _await(awaitable: Awaitable[Result]) -> Result:
    return await awaitable


def on_loop_or_waited_for(
    execution: Execution, call: Callable[[], Coroutine[Any, Any, Result]]
) -> Coroutine[Any, Any, Result] | Result:
    """On the attempt's event loop the coroutine, to be awaited; in a thread its result."""
    if not is_on_loop():
        return waited_for(execution, call)
    refuse_other_loop(execution)
    return call()


def refuse_other_loop(execution: Execution) -> None:
    """Raise Conflict on any event loop except the one that runs the attempt."""
    if asyncio.get_running_loop() is not execution.task.get_loop():
        raise Conflict(
            "this event loop is not the one that the delivery is attempted on, as in "
            "asyncio.run(); make the handler async, or do this outside, without `await`"
        )


def waited_for(execution: Execution, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine on the attempt's event loop and block the calling thread until it ends."""
    if is_on_loop():
        raise Conflict("the event loop must not wait here; write `async with`, or `await`")
    return asyncio.run_coroutine_threadsafe(call(), execution.task.get_loop()).result()


def is_on_loop() -> bool:
    """Whether the caller runs on an event loop, and so must not block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
