"""A step as a handler uses it, on the event loop or in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

import msgspec

from duly.domain.deliveries.failures import Fail
from duly.domain.deliveries.steps import NOTHING, Step, checked_step, kept_result
from duly.errors import Conflict
from duly.ports import Execution

Result = TypeVar("Result")


class HandlerStep:
    """One step of a handler; `async with` in an async one, `with` in a plain one.

    Python cannot skip the block, so the block asks: `if not step.done: ...`. It is recorded when
    the block ends, unless it raises.
    """

    def __init__(self, execution: Execution, name: str, late: bool) -> None:
        self.name = checked_step(name)
        self._execution = execution
        self._late = late
        self._entered = self._asked = False
        self._found: Step | None = None
        self._kept = NOTHING

    @property
    def done(self) -> bool:
        """Whether it is done, by an earlier attempt or by this one."""
        if not self._entered:
            raise Conflict(f"step {self.name!r} is not begun; write `async with` or `with` first")
        self._asked = True
        return self._found is not None

    @property
    def result(self) -> Any:
        """What was kept of it, as JSON gives it back; the same on every attempt."""
        return msgspec.json.decode(self._kept if self._found is None else self._found.result_json)

    def keep(self, result: Any) -> None:
        """Keep a result, which has to be JSON; of a step that is done the first one stays."""
        self._kept = kept_result(result)

    async def __aenter__(self) -> Self:
        refuse_other_loop(self._execution)
        self._found = await self._execution.steps.begin(self.name)
        self._entered = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        steps = self._execution.steps
        if self._found is not None:
            return
        if kind is not None:
            steps.give_up(self.name)
            return
        self._found = await steps.record(self.name, self._kept, late=self._late)
        if not self._asked:
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
    """Call unless the step is done; its result, or on the event loop something that awaits it."""
    return _awaited(step, call) if is_on_loop() else _called(step, execution, call)


async def _awaited(step: HandlerStep, call: Callable[[], Any]) -> Any:
    async with step:
        if not step.done:
            result = call()
            step.keep(await result if inspect.isawaitable(result) else result)
    return step.result


def _called(step: HandlerStep, execution: Execution, call: Callable[[], Any]) -> Any:
    with step:
        if not step.done:
            result = call()
            if inspect.isawaitable(result):
                awaitable = result
                result = waited_for(execution, lambda: _wait(awaitable))
            step.keep(result)
    return step.result


async def _wait(awaitable: Awaitable[Result]) -> Result:
    return await awaitable


def on_loop_or_waited_for(
    execution: Execution, call: Callable[[], Coroutine[Any, Any, Result]]
) -> Coroutine[Any, Any, Result] | Result:
    """On the attempt's event loop the coroutine, to be awaited; in a thread what comes of it."""
    if not is_on_loop():
        return waited_for(execution, call)
    refuse_other_loop(execution)
    return call()


def refuse_other_loop(execution: Execution) -> None:
    """Conflict on any event loop but the one that the delivery is attempted on."""
    if asyncio.get_running_loop() is not execution.task.get_loop():
        raise Conflict(
            "this event loop is not the one that the delivery is attempted on, as in "
            "asyncio.run(); make the handler async, or do this outside, without `await`"
        )


def waited_for(execution: Execution, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run something on the attempt's loop and wait for it, in a thread that is not the loop's."""
    if is_on_loop():
        raise Conflict("the event loop must not wait here; write `async with`, or `await`")
    return asyncio.run_coroutine_threadsafe(call(), execution.task.get_loop()).result()


def is_on_loop() -> bool:
    """Whether the caller runs on an event loop, and so must never block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
