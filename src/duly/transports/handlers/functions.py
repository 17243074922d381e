"""What a function must be to serve as a handler; everything else is refused where it is registered.

A handler that could never be called right would fail, or do nothing, at every delivery instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from duly.errors import InvalidInput


def checked_function(function: object) -> Callable[[Any], Any]:
    """The function, if it can be called with the delivery and its body runs then."""
    if not callable(function):
        raise InvalidInput("handler", f"{function!r} is no function; decorate one with it")
    called = _named(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            "handler", f"{called} is a generator, whose body would never run; take `yield` out"
        )
    signature = _signature(function)
    if signature is None:
        return function
    if not signature.parameters:
        raise InvalidInput("handler", f"{called} takes no argument; it is given the delivery")
    try:
        signature.bind(None)
    except TypeError as error:
        raise InvalidInput(
            "handler",
            f"{called}{signature} cannot be called with the delivery as its one argument: {error}",
        ) from None
    return function


def first_parameter(function: Callable[[Any], Any]) -> str | None:
    """The name of the parameter that takes the delivery, if Python knows it."""
    signature = _signature(function)
    return None if signature is None else next(iter(signature.parameters))


def own_name(function: Callable[..., Any]) -> str:
    """A function's module and name, for one that was given no other."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise InvalidInput(
            "handler", f'{_named(function)} has no name of its own; write @app.handler("a.name")'
        )
    return f"{function.__module__}.{name}"


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):  # some of those written in C have none
        return None


def _named(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
