"""Checks that a function can be a handler, at the time it is registered.

Without the check, such a handler would fail, or do nothing, at every delivery.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from duly.errors import InvalidInput


def checked_function(function: object) -> Callable[[Any], Any]:
    """The function, if it can be called with the delivery and that runs its body."""
    if not callable(function):
        raise InvalidInput("handler", f"{function!r} is no function; decorate one with it")
    name = _display_name(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            "handler", f"{name} is a generator, whose body would never run; take `yield` out"
        )
    signature = _signature(function)
    if signature is None:
        return function
    if not signature.parameters:
        raise InvalidInput("handler", f"{name} takes no argument; it is given the delivery")
    try:
        signature.bind(None)
    except TypeError as error:
        raise InvalidInput(
            "handler",
            f"{name}{signature} cannot be called with the delivery as its one argument: {error}",
        ) from None
    return function


def first_parameter(function: Callable[[Any], Any]) -> str | None:
    """The name of the parameter that takes the delivery, or None if there is no signature."""
    signature = _signature(function)
    return None if signature is None else next(iter(signature.parameters))


def own_name(function: Callable[..., Any]) -> str:
    """A function's module and name: the default name of its handler."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise InvalidInput(
            "handler",
            f'{_display_name(function)} has no name of its own; write @app.handler("a.name")',
        )
    return f"{function.__module__}.{name}"


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):  # some functions written in C have no signature
        return None


def _display_name(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
