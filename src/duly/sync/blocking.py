"""Makes blocking methods of coroutine functions, with their parameters and types."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from duly.sync.calls import Make
from duly.sync.conversations import Conversation
from duly.sync.home import Form, Home, refuse_event_loop

Given = ParamSpec("Given")
Result = TypeVar("Result")
Item = TypeVar("Item")

BLOCKS = "Block until the coroutine of the same name has ended, and return its result."


class Blocking:
    """The synchronous form of an object; `path` is how that is written, as in `app.schedules`."""

    def __init__(self, wrapped: Any, home: Home, path: str) -> None:
        self._wrapped = wrapped
        self._home = home
        self._path = path

    def _run(self, make: Make[Result], name: str) -> Result:
        """Run a coroutine of the method with this name."""
        return self._home.run(make, lambda: f"await {self._call(name)}")

    def _run_for(
        self, name: str, items: Iterable[Item], method: Callable[[list[Item]], Awaitable[Result]]
    ) -> Result:
        """Run the method, which has this name, for some items.

        They are generated in this thread: the generator may block, as a query of Django does.
        """
        refuse_event_loop(lambda: f"await {self._call(name)}")
        found = list(items)
        return self._run(lambda: method(found), name)

    def _call(self, name: str) -> str:
        return f"{self._path}(...)" if name == "__call__" else f"{self._path}.{name}(...)"

    def _iterate(self, make: Callable[[], AsyncIterator[Item]], name: str) -> Iterator[Item]:
        """Iterate over the results of the method with this name."""

        def form() -> str:
            return f"async for ... in {self._call(name)}"

        async def begin() -> AsyncIterator[Item]:
            return make()

        conversation, found = self._home.begin(begin, form)
        return BlockingIterator(conversation, found, form)

    @contextmanager
    def _within(
        self,
        make: Callable[[], AbstractAsyncContextManager[Item]],
        name: str,
        *,
        opens: bool = True,
    ) -> Iterator[tuple[Conversation, Item]]:
        """The block of the method with this name, and the task in which it runs."""
        block: AbstractAsyncContextManager[Item] | None = None

        async def enter() -> Item:
            nonlocal block
            block = make()
            return await block.__aenter__()

        conversation, entered = self._home.begin(
            enter, lambda: f"async with {self._call(name)}", opens=opens
        )
        assert block is not None
        leave = block.__aexit__
        try:
            yield conversation, entered
        except GeneratorExit as error:
            # The block is abandoned. Not waited for: Python may call this anywhere.
            conversation.end(partial(leave, GeneratorExit, error, error.__traceback__))
            raise
        except BaseException as error:
            if not conversation.run(partial(leave, type(error), error, error.__traceback__)):
                raise
        else:
            conversation.run(partial(leave, None, None, None))
        finally:
            conversation.end()


class BlockingIterator(Iterator[Item]):
    """Blocks for each item of an async iterator; `close` ends it early."""

    def __init__(self, conversation: Conversation, found: AsyncIterator[Item], form: Form) -> None:
        self._conversation = conversation
        self._found = found
        self._form = form
        self._is_over = False

    def __next__(self) -> Item:
        refuse_event_loop(self._form)
        if self._is_over:
            raise StopIteration
        try:
            return self._conversation.run(self._found.__anext__)
        except StopAsyncIteration:
            self.close()
            raise StopIteration from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the async iterator, without waiting for that; safe to repeat."""
        if not self._is_over:
            self._is_over = True
            found = self._found
            self._conversation.end(found.aclose if isinstance(found, AsyncGenerator) else None)

    __del__ = close


def blocking(
    method: Callable[Concatenate[Any, Given], Awaitable[Result]], called: str = ""
) -> Callable[Concatenate[Any, Given], Result]:
    """A method that runs the coroutine function of the wrapped object, and blocks until it ends.

    `called` is the name there, if it is another one.
    """
    name = called or method.__name__

    @wraps(method)
    def block(self: Blocking, /, *given: Given.args, **named: Given.kwargs) -> Result:
        function: Callable[..., Awaitable[Result]] = getattr(self._wrapped, name)
        return self._run(lambda: function(*given, **named), name)

    block.__doc__ = method.__doc__ or BLOCKS
    return block


def blocking_iterator(
    method: Callable[Concatenate[Any, Given], AsyncIterator[Item]],
) -> Callable[Concatenate[Any, Given], Iterator[Item]]:
    """A method whose iterator blocks for each item of the wrapped object's async iterator."""
    name = method.__name__

    @wraps(method)
    def iterate(self: Blocking, /, *given: Given.args, **named: Given.kwargs) -> Iterator[Item]:
        function: Callable[..., AsyncIterator[Item]] = getattr(self._wrapped, name)
        return self._iterate(lambda: function(*given, **named), name)

    iterate.__doc__ = method.__doc__ or BLOCKS
    return iterate
