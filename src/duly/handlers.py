"""Handlers as callers see them: the function itself, and its deliveries with typed arguments."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from duly.domain import checks
from duly.domain.endpoints.limits import NO_LIMITS, DeclaredLimits, checked_limits
from duly.records.delivery import Accepted, DeliveryKeywords
from duly.records.limit import PerKey
from duly.records.retry_plan import RetryPlan
from duly.records.target import HandlerTarget
from duly.services.deliveries.acceptor import Answer
from duly.services.deliveries.handles import Handle, handle_of
from duly.services.namespace import Namespace
from duly.sync.handlers import SyncDeliverable
from duly.sync.home import Home
from duly.sync.resources import SyncDeliveries
from duly.transports.handlers.arguments import CallStyle, result_decoder
from duly.transports.handlers.functions import own_name
from duly.transports.handlers.handled_delivery import HandledDelivery
from duly.transports.handlers.registry import RegisteredHandler

Called = ParamSpec("Called")
"""The parameters of the function."""
Given = ParamSpec("Given")
"""Those that a caller gives: all but the delivery."""
Returned = TypeVar("Returned", covariant=True)
"""What a call returns: the result, or a coroutine that does."""
Result = TypeVar("Result")
Payload = TypeVar("Payload")


@dataclass(frozen=True, slots=True)
class Way:
    """How a call gets to a handler, and its result back."""

    app: Namespace
    home: Home
    """Where its synchronous calls run."""
    name: str
    style: CallStyle
    decode: Callable[[Any], Any] | None
    """Turns the JSON of a result into the type that the function returns."""


class Deliverable(Generic[Given, Returned]):
    """Delivers calls of a handler, with the options given to `using`."""

    def __init__(self, way: Way, options: Mapping[str, Any], path: str) -> None:
        self.name = way.name
        self._way = way
        self._options = options
        self._path = path

    @property
    def connection(self) -> Any:
        """The connection in whose transaction it delivers, if `using` was given one."""
        return self._options.get("connection")

    @property
    def sync(self) -> SyncDeliverable[Given, Returned]:
        """The same methods for synchronous code: `weekly.sync.deliver(7)` blocks."""
        deliveries = SyncDeliveries(self._way.app.deliveries, self._way.home, "app.deliveries")
        return SyncDeliverable(self, self._way.home, self._path, deliveries, self._way.decode)

    @overload
    async def deliver(
        self: Deliverable[Given, Coroutine[Any, Any, Result]],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Handle[Result]: ...

    @overload
    async def deliver(self, *given: Given.args, **named: Given.kwargs) -> Handle[Returned]: ...

    async def deliver(self, *given: Given.args, **named: Given.kwargs) -> Handle[Any]:
        """Accept a delivery that calls the handler with these arguments."""
        app, payload = self._way.app, self._way.style.payload(given, named)
        accepted = await app.deliver(self.name, payload, **self._options)
        return handle_of(accepted, app.deliveries, self._way.decode)

    def put(self, answer: Answer, /, *given: Given.args, **named: Given.kwargs) -> bool:
        """Accept such a delivery as `app.put` does, for `sync`."""
        payload = self._way.style.payload(given, named)
        return self._way.app.put(answer, self.name, payload, **self._options)

    def deliver_within(
        self, connection: Any, /, *given: Given.args, **named: Given.kwargs
    ) -> Accepted:
        """Accept such a delivery in the transaction of a plain connection, without an event loop.

        For psycopg, psycopg2, SQLAlchemy and Django on PostgreSQL, as `app.deliver_within`.
        """
        payload = self._way.style.payload(given, named)
        options = {**self._options}
        options.pop("connection", None)
        return self._way.app.deliver_within(connection, self.name, payload, **options)

    def item(self, *given: Given.args, **named: Given.kwargs) -> Mapping[str, Any]:
        """A call as an item of `deliver_many`, also of the app's, with other handlers' items."""
        payload = self._way.style.payload(given, named)
        return {"target": self.name, "payload": payload, **self._options}

    async def deliver_many(self, items: Iterable[Mapping[str, Any]]) -> Sequence[Accepted]:
        """Accept many calls in one transaction: `weekly.deliver_many(weekly.item(n) for n in ...)`.

        All of them are accepted, or none.
        """
        return await self._way.app.deliver_many(items)


class Handler(Deliverable[Given, Returned], HandlerTarget, Generic[Called, Given, Returned]):
    """A registered function: called, it is the function itself; `deliver` has a worker call it."""

    __name__: str

    def __init__(self, way: Way, function: Callable[Called, Returned]) -> None:
        super().__init__(way, {}, getattr(function, "__name__", "handler"))
        self.function = function
        update_wrapper(self, function, updated=())

    def __call__(self, *given: Called.args, **named: Called.kwargs) -> Returned:
        """Call the function, here and now."""
        return self.function(*given, **named)

    def using(
        self, *, id: str | None = None, connection: Any = None, **options: Unpack[DeliveryKeywords]
    ) -> Deliverable[Given, Returned]:
        """The handler with options of `app.deliver`: `weekly.using(after=30).deliver(7)`."""
        chosen: dict[str, Any] = dict(options)
        if id is not None:
            chosen["id"] = id
        if connection is not None:
            chosen["connection"] = connection
        return Deliverable(self._way, chosen, f"{self._path}.using(...)")

    def __repr__(self) -> str:
        return f"<handler {self.name}>"


class Register(Protocol):
    """Adds a function to the handlers of the process."""

    def __call__(
        self,
        name: str,
        function: Callable[..., Any],
        plan: RetryPlan | None = None,
        timeout: float | None = None,
        *,
        keep_result: bool = True,
        limits: DeclaredLimits = NO_LIMITS,
    ) -> RegisteredHandler: ...


@dataclass(frozen=True, slots=True)
class HandlerOptions:
    """The options with which a function is registered."""

    name: str | None = None
    retry: RetryPlan | None = None
    timeout: float | None = None
    keep_result: bool = True
    limits: DeclaredLimits = NO_LIMITS


class Registering:
    """A decorator that registers a function as a handler; called with options, another one."""

    def __init__(
        self,
        app: Namespace,
        home: Home,
        register: Register,
        options: HandlerOptions | None = None,
    ) -> None:
        self._app = app
        self._home = home
        self._register = register
        self._options = options

    @overload
    def __call__(
        self, function: Callable[[HandledDelivery[Payload]], Returned], /
    ) -> Handler[[HandledDelivery[Payload]], [Payload], Returned]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[HandledDelivery[Any], Given], Returned], /
    ) -> Handler[Concatenate[HandledDelivery[Any], Given], Given, Returned]: ...

    @overload
    def __call__(
        self, function: Callable[Given, Returned], /
    ) -> Handler[Given, Given, Returned]: ...

    @overload
    def __call__(
        self,
        name: str | None = None,
        *,
        retry: RetryPlan | None = None,
        timeout: float | None = None,
        keep_result: bool = True,
        rate: float | None = None,
        in_flight: int | None = None,
        limits: PerKey | None = None,
    ) -> Registering: ...

    def __call__(
        self,
        name: Any = None,
        *,
        retry: RetryPlan | None = None,
        timeout: float | None = None,
        keep_result: bool = True,
        rate: float | None = None,
        in_flight: int | None = None,
        limits: PerKey | None = None,
    ) -> Any:
        """Register the function, or set the options with which it will be registered.

        `name` is that of the target; by default it is the function's module and name:
        `shop.weekly`. `retry` is the plan for failed attempts, `timeout` the seconds an attempt may
        take (300 by default). With `keep_result=False` what it returns is not kept.

        All workers together start at most `rate` deliveries of it a second, and run at most
        `in_flight` at once. `limits=duly.per("customer", in_flight=2)` declares limits for each
        customer.
        """
        if callable(name) or self._options is not None:
            return self._registered(name, self._options or HandlerOptions())
        if name is not None:
            checks.checked_name("handler", name)
        declared = checked_limits(rate, in_flight, limits)
        options = HandlerOptions(name, retry, timeout, keep_result, declared)
        return Registering(self._app, self._home, self._register, options)

    def _registered(self, function: Any, options: HandlerOptions) -> Handler[..., ..., Any]:
        if isinstance(function, Handler):
            function = function.function
        added = self._register(
            options.name or own_name(function),
            function,
            options.retry,
            options.timeout,
            keep_result=options.keep_result,
            limits=options.limits,
        )
        decode = result_decoder(function) if added.keeps_result else None
        return Handler(Way(self._app, self._home, added.name, added.style, decode), function)
