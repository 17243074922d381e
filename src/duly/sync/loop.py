"""The event loop of the background thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar, TypeVarTuple

from duly.system import run_in_thread

try:
    from uvloop import Loop
except ImportError:  # there is none for Windows
    from asyncio import SelectorEventLoop as Loop  # type: ignore[assignment]

Given = TypeVarTuple("Given")
Result = TypeVar("Result")


class ThreadedLoop(Loop):
    """An event loop whose blocking calls run in daemon threads.

    The default executor refuses calls, as for looking up a host, once the main thread has ended.
    """

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Executor | None,
        func: Callable[[*Given], Result],
        *args: *Given,
    ) -> asyncio.Future[Result]:
        """Call the function in a thread."""
        if executor is not None:
            return asyncio.ensure_future(super().run_in_executor(executor, func, *args), loop=self)
        return asyncio.wrap_future(run_in_thread(partial(func, *args)), loop=self)
