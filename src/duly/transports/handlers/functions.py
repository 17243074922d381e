"""The parameters of a handler's function, checked when it is registered.

Without the check, such a handler would fail, or do nothing, at every delivery.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from duly.errors import InvalidInput
from duly.transports.handlers.handled_delivery import HandledDelivery

DELIVERY = "delivery"
LOOKS_LIKE_DELIVERY = re.compile(r"(\w+\.)*\w*Delivery(\[.*\])?")
"""An annotation that is imported for type checking only, and probably means the delivery."""
UNTYPED = inspect.Parameter.empty
NAMELESS = inspect.Parameter("_", inspect.Parameter.POSITIONAL_ONLY)
MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Argument(msgspec.Struct, frozen=True):
    """A parameter that gets a value from the payload."""

    name: str
    type: Any
    is_required: bool


class Parameters(msgspec.Struct, frozen=True):
    """What the parameters of a handler get."""

    name: str
    """How messages call the function."""
    signature: inspect.Signature
    """Without the parameter that gets the delivery."""
    arguments: Sequence[Argument] = ()
    delivery: inspect.Parameter | None = None
    """The parameter that gets the delivery."""
    payload: Any = Any
    """The type of the payload, as in `Delivery[Order]`."""

    @property
    def is_only_the_delivery(self) -> bool:
        """Whether the function takes the delivery and nothing else."""
        return self.delivery is not None and not self.arguments


def parameters_of(function: object) -> Parameters:
    """The parameters of a function, if it can be called with what a payload has."""
    if not callable(function):
        raise InvalidInput("handler", f"{function!r} is no function; decorate one with it")
    name = display_name(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            "handler", f"{name} is a generator, whose body would never run; take `yield` out"
        )
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some functions written in C have no signature
        return Parameters(name, inspect.Signature(), delivery=NAMELESS)
    return _sorted_out(function, name, signature)


def _sorted_out(
    function: Callable[..., Any], name: str, signature: inspect.Signature
) -> Parameters:
    arguments: list[Argument] = []
    delivery: inspect.Parameter | None = None
    payload: Any = Any
    bound = function.keywords if isinstance(function, partial) else {}
    given = [each for each in signature.parameters.values() if each.name not in bound]
    for each in given:
        if each.kind in MANY:
            raise InvalidInput(
                "handler", f"{name} has {each}: a payload has names; write out the parameters"
            )
        hint = _type_of(function, each)
        if not _is_delivery(each, hint, alone=len(given) == 1):
            arguments.append(_argument(name, each, hint))
        elif delivery is not None:
            raise InvalidInput("handler", f"{name} takes the delivery twice; once is enough")
        else:
            delivery, payload = each, (typing.get_args(hint) or [Any])[0]
    left = signature.replace(parameters=[each for each in given if each is not delivery])
    return Parameters(name, left, arguments, delivery, payload)


def _is_delivery(parameter: inspect.Parameter, hint: Any, *, alone: bool) -> bool:
    if hint in (UNTYPED, Any):
        return alone or parameter.name == DELIVERY
    return HandledDelivery in (hint, typing.get_origin(hint))


def _argument(function: str, parameter: inspect.Parameter, hint: Any) -> Argument:
    name = parameter.name
    if hint is UNTYPED:
        raise InvalidInput(
            "handler", f"{function} has no type for {name!r}; write one, as in `{name}: int`"
        )
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise InvalidInput(
            "handler", f"{function} has {name!r} without a name to call it by; take the / out"
        )
    return Argument(name, hint, parameter.default is UNTYPED)


def _type_of(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    annotation = parameter.annotation
    if annotation is UNTYPED:
        return UNTYPED
    # One by one: a type of another parameter may exist for type checkers only.
    alone = type("Alone", (), {"__annotations__": {parameter.name: annotation}})
    try:
        known = typing.get_type_hints(alone, _globals(function), include_extras=True)
    except (NameError, AttributeError) as error:
        if LOOKS_LIKE_DELIVERY.fullmatch(str(annotation)):
            return HandledDelivery
        raise InvalidInput(
            "handler",
            f"{display_name(function)} has the type {annotation!r} for {parameter.name!r}, which "
            f"cannot be found: {error}; import it outside of `if TYPE_CHECKING`",
        ) from None
    found = known[parameter.name]
    return Any if found is object else found


def returned_type(function: Callable[..., Any]) -> Any:
    """The type of what a function returns, or awaits; Any if it says none that can be found."""
    annotation = getattr(function, "__annotations__", {}).get("return", UNTYPED)
    try:
        found = _type_of(function, NAMELESS.replace(annotation=annotation))
    except Exception:
        # The annotation was of no use to anybody until now, and may be anything.
        return Any
    if typing.get_origin(found) in (Awaitable, Coroutine):
        found = typing.get_args(found)[-1]
    return Any if found in (UNTYPED, None, type(None)) else found


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__globals__"):  # an object with __call__
        function = type(function).__call__
    found: dict[str, Any] = getattr(function, "__globals__", {})
    return found


def own_name(function: Callable[..., Any]) -> str:
    """A function's module and name: the default name of its handler."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise InvalidInput(
            "handler",
            f'{display_name(function)} has no name of its own; write @app.handler("a.name")',
        )
    return f"{function.__module__}.{name}"


def display_name(function: object) -> str:
    """How messages call a function."""
    return getattr(function, "__qualname__", None) or repr(function)
