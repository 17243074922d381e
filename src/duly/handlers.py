"""Handlers as callers see them: the function itself, and its deliveries with typed arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from duly.records.delivery import Accepted, DeliveryKeywords
from duly.records.target import HandlerTarget
from duly.services.namespace import Namespace
from duly.sync.handlers import SyncDeliverable
from duly.sync.home import Home
from duly.transports.handlers.arguments import CallStyle
from duly.transports.handlers.handled_delivery import HandledDelivery

Called = ParamSpec("Called")
"""The parameters of the function."""
Given = ParamSpec("Given")
"""Those that a caller gives: all but the delivery."""
Result = TypeVar("Result")
Payload = TypeVar("Payload")


@dataclass(frozen=True, slots=True)
class Accepting:
    """The App that accepts the deliveries of a handler, and the home of its synchronous calls."""

    app: Namespace
    home: Home


class Deliverable(Generic[Given]):
    """Delivers calls of a handler, with the options given to `using`."""

    def __init__(
        self,
        accepting: Accepting,
        name: str,
        style: CallStyle,
        options: Mapping[str, Any],
        path: str,
    ) -> None:
        self.name = name
        self._accepting = accepting
        self._app = accepting.app
        self._style = style
        self._options = options
        self._path = path

    @property
    def connection(self) -> Any:
        """The connection in whose transaction it delivers, if `using` was given one."""
        return self._options.get("connection")

    @property
    def sync(self) -> SyncDeliverable[Given]:
        """The same methods for synchronous code: `weekly.sync.deliver(7)` blocks."""
        return SyncDeliverable(self, self._accepting.home, self._path)

    async def deliver(self, *given: Given.args, **named: Given.kwargs) -> Accepted:
        """Accept a delivery that calls the handler with these arguments."""
        payload = self._style.payload(given, named)
        return await self._app.deliver(self.name, payload, **self._options)

    def deliver_within(
        self, connection: Any, /, *given: Given.args, **named: Given.kwargs
    ) -> Accepted:
        """Accept such a delivery in the transaction of a plain connection, without an event loop.

        For psycopg, psycopg2, SQLAlchemy and Django on PostgreSQL, as `app.deliver_within`.
        """
        payload = self._style.payload(given, named)
        options = {**self._options}
        options.pop("connection", None)
        return self._app.deliver_within(connection, self.name, payload, **options)

    def item(self, *given: Given.args, **named: Given.kwargs) -> Mapping[str, Any]:
        """A call as an item of `deliver_many`, also of the app's, with other handlers' items."""
        payload = self._style.payload(given, named)
        return {"target": self.name, "payload": payload, **self._options}

    async def deliver_many(self, items: Iterable[Mapping[str, Any]]) -> Sequence[Accepted]:
        """Accept many calls in one transaction: `weekly.deliver_many(weekly.item(n) for n in ...)`.

        All of them are accepted, or none.
        """
        return await self._app.deliver_many(items)


class Handler(Deliverable[Given], HandlerTarget, Generic[Called, Given, Result]):
    """A registered function: called, it is the function itself; `deliver` has a worker call it."""

    __name__: str

    def __init__(
        self,
        accepting: Accepting,
        name: str,
        style: CallStyle,
        function: Callable[Called, Result],
    ) -> None:
        path = getattr(function, "__name__", "handler")
        super().__init__(accepting, name, style, {}, path)
        self.function = function
        update_wrapper(self, function, updated=())

    def __call__(self, *given: Called.args, **named: Called.kwargs) -> Result:
        """Call the function, here and now."""
        return self.function(*given, **named)

    def using(
        self, *, id: str | None = None, connection: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> Deliverable[Given]:
        """The handler with options of `app.deliver`: `weekly.using(after=30).deliver(7)`."""
        chosen: dict[str, Any] = dict(options)
        if id is not None:
            chosen["id"] = id
        if connection is not None:
            chosen["connection"] = connection
        path = f"{self._path}.using(...)"
        return Deliverable(self._accepting, self.name, self._style, chosen, path)

    def __repr__(self) -> str:
        return f"<handler {self.name}>"


class Registering:
    """A decorator that registers a function as a handler."""

    def __init__(self, register: Callable[[Any], Any]) -> None:
        self._register = register

    @overload
    def __call__(
        self, function: Callable[[HandledDelivery[Payload]], Result], /
    ) -> Handler[[HandledDelivery[Payload]], [Payload], Result]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[HandledDelivery[Any], Given], Result], /
    ) -> Handler[Concatenate[HandledDelivery[Any], Given], Given, Result]: ...

    @overload
    def __call__(self, function: Callable[Given, Result], /) -> Handler[Given, Given, Result]: ...

    def __call__(self, function: Any, /) -> Any:
        """Register the function."""
        return self._register(function)
