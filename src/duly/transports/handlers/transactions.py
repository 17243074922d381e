"""The transaction that completes a delivery, as used by async and plain handlers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from duly.ports import Execution, Transaction
from duly.transports.handlers.steps import is_on_loop, on_loop_or_waited_for, waited_for


class HandlerTransaction:
    """The transaction that completes the delivery; it begins with its first use.

    `await delivery.transaction.execute("insert ...", value)`, or
    `async with delivery.transaction as transaction: ...` for several statements; in a plain
    handler the same without `await` and `async`. It is committed when the handler returns, and
    rolled back when the handler raises or the lease was lost.
    """

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    def execute(self, sql: str, *parameters: Any) -> Any:
        """Run one statement with the database's own placeholders (`?` or `$1`)."""
        return on_loop_or_waited_for(self._execution, partial(self._execute, sql, *parameters))

    def fetch(self, sql: str, *parameters: Any) -> Any:
        """Run one statement and return its rows."""
        return on_loop_or_waited_for(self._execution, partial(self._fetch, sql, *parameters))

    def opened(self) -> Any:
        """The transaction itself, begun if it was not yet; for `app.deliver(connection=)`."""
        return for_handler(self._execution, self._execution.begin)

    async def _execute(self, sql: str, *parameters: Any) -> None:
        await (await self._execution.begin()).execute(sql, *parameters)

    async def _fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return await (await self._execution.begin()).fetch(sql, *parameters)

    def __await__(self) -> Any:
        return self.opened().__await__()

    async def __aenter__(self) -> Transaction:
        transaction: Transaction = await self.opened()
        return transaction

    async def __aexit__(self, *error: object) -> None:
        """Do nothing: the transaction is committed when the handler returns."""

    def __enter__(self) -> Any:
        return Waited(self._execution, waited_for(self._execution, self._execution.begin))

    def __exit__(self, *error: object) -> None:
        """Do nothing: the transaction is committed when the handler returns."""


def for_handler(execution: Execution, call: Callable[[], Any]) -> Any:
    """The call's result: a coroutine on the event loop, in a thread an object that blocks."""
    result = on_loop_or_waited_for(execution, call)
    return result if is_on_loop() else Waited(execution, result)


class Waited:
    """Wraps an object for a plain handler: calls of its coroutine functions block until done."""

    def __init__(self, execution: Execution, wrapped: Any) -> None:
        self._execution = execution
        self._wrapped = wrapped

    def opened(self) -> Any:
        """The transaction, for `connection=`; isinstance looks for it on the class."""
        return on_loop_or_waited_for(self._execution, self._wrapped.opened)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._wrapped, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute
        return lambda *arguments, **options: on_loop_or_waited_for(
            self._execution, partial(attribute, *arguments, **options)
        )
