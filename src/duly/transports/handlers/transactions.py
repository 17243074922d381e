"""The transaction of a delivery's completion as a handler uses it, on the event loop or not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from duly.ports import Execution, Transaction
from duly.transports.handlers.steps import is_on_loop, on_loop_or_waited_for, waited_for


class HandlerTransaction:
    """The transaction of a delivery's completion; it begins with its first use.

    `await delivery.transaction.execute("insert ...", value)`, or
    `async with delivery.transaction as transaction: ...` for several; in a plain handler the same
    without `await` and `async`. Whatever is written is committed when the handler returns, and
    undone when it raises or its lease was lost.
    """

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    def execute(self, sql: str, *parameters: Any) -> Any:
        """Run one statement; parameters as the database spells them (`?` or `$1`)."""
        return on_loop_or_waited_for(self._execution, partial(self._execute, sql, *parameters))

    def fetch(self, sql: str, *parameters: Any) -> Any:
        """Run one statement and return its rows."""
        return on_loop_or_waited_for(self._execution, partial(self._fetch, sql, *parameters))

    def opened(self) -> Any:
        """The transaction itself, begun if need be; for `app.deliver(connection=)`."""
        return for_handler(self._execution, self._execution.begin)

    async def _execute(self, sql: str, *parameters: Any) -> None:
        await (await self._execution.begin()).execute(sql, *parameters)

    async def _fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return await (await self._execution.begin()).fetch(sql, *parameters)

    def __await__(self) -> Any:
        return self.opened().__await__()

    async def __aenter__(self) -> Transaction:
        found: Transaction = await self.opened()
        return found

    async def __aexit__(self, *error: object) -> None:
        """Nothing ends here: the handler's return commits."""

    def __enter__(self) -> Any:
        return Waited(self._execution, waited_for(self._execution, self._execution.begin))

    def __exit__(self, *error: object) -> None:
        """Nothing ends here either."""


def for_handler(execution: Execution, call: Callable[[], Any]) -> Any:
    """What the call gives, on the event loop to be awaited, in a thread with methods that wait."""
    found = on_loop_or_waited_for(execution, call)
    return found if is_on_loop() else Waited(execution, found)


class Waited:
    """Something of an attempt in a plain handler: what is a coroutine elsewhere is waited for."""

    def __init__(self, execution: Execution, wrapped: Any) -> None:
        self._execution = execution
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *given, **named: on_loop_or_waited_for(
            self._execution, partial(found, *given, **named)
        )
