"""The page about the Python API, from signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from textwrap import dedent
from typing import Any

import duly
from duly import resources, schedule_resources

INTRODUCTION = """# Python API

These names are public: `import duly`. An `App` works on a store, a `Client` calls a server. Both
have the [resources](#resources).

"""
GROUPS = {
    "Apps and clients": ("App", "Client", "Namespace"),
    "Handlers": ("Delivery", "Retry", "Fail", "ValidationFailure", "DependencyFailure"),
    "Rules of schedules": ("cron", "every", "at", "yearly", "any_of", "except_", "DELIVERY_ID"),
    "Targets": ("webhook", "endpoint"),
    "Limits": ("per", "PerKey"),
    "Retry plans": ("exponential", "delays", "no_retry"),
    "Receiving webhooks": ("verify", "SignatureRefused"),
    "Records": (
        "Accepted",
        "Handle",
        "DeliveryRecord",
        "Attempt",
        "Batch",
        "BatchOutcome",
        "DeadLetterFilter",
        "State",
        "Reason",
    ),
    "Errors": (
        *("DulyError", "BadSetting", "Busy", "Conflict", "InvalidInput", "NotFound"),
        *("StoreUnavailable", "DeliveryFailed", "NotEnded"),
    ),
}
"""All public names in the order of the page."""
WITH_METHODS = ("App", "Client", "Delivery", "Handle")
GIVEN = ("Delivery", "Handle", "Namespace")
"""Classes whose objects callers get and do not create."""
RESOURCES: dict[str, type] = {
    "deliveries": resources.Deliveries,
    "schedules": schedule_resources.Schedules,
    "calendars": schedule_resources.Calendars,
    "endpoints": resources.Endpoints,
    "limits": resources.Limits,
    "streams": resources.Streams,
    "batches": resources.Batches,
    "dead_letters": resources.DeadLetters,
    "recovery": resources.Recovery,
    "workers": resources.Workers,
    "keys": resources.Keys,
    "alerts": resources.Alerts,
    "stats": resources.Stats,
    "audit": resources.Audit,
}


def page() -> str:
    """All public names by subject, then the resources of an App and a Client."""
    groups = (f"## {title}\n\n{''.join(map(_public, names))}" for title, names in GROUPS.items())
    return INTRODUCTION + "".join(groups) + "".join(_resources())


def _public(name: str) -> str:
    found = getattr(duly, name)
    title = f"### duly.{name}\n\n"
    if inspect.isclass(found):
        methods = _methods(f"{name.lower()}.", found) if name in WITH_METHODS else ()
        return f"{title}{_constructor(name, found)}{_fields(found)}{''.join(methods)}"
    if inspect.isfunction(found):
        return title + _called(f"duly.{name}", found, found)
    # The docstring of a string is that of `str`.
    text = f"`{found!r}`" if isinstance(found, str) else documentation(found)
    return f"{title}{text}\n\n"


def _constructor(name: str, found: type) -> str:
    """The docstring, after the arguments of a class that callers create."""
    created = vars(found).get("__init__")
    if inspect.isfunction(created) and name not in GIVEN:
        return _called(f"duly.{name}", created, found).replace(" -> None", "", 1)
    return f"{documentation(found)}\n\n"


def _fields(found: type) -> str:
    """The members of an enum, or the fields of a record."""
    if issubclass(found, Enum):
        return f"{', '.join(f'`{each.value}`' for each in found)}\n\n"
    names = getattr(found, "__struct_fields__", ())
    return f"Fields: {', '.join(f'`{name}`' for name in names)}\n\n" if names else ""


def _methods(prefix: str, found: type) -> Iterator[str]:
    for name, member in inspect.getmembers(found):
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            yield f"#### {prefix}{name}\n\n" + _called(f"{prefix}{name}", member, member)
        elif isinstance(member, property):
            yield f"#### {prefix}{name}\n\n{documentation(member)}\n\n"


def _resources() -> Iterator[str]:
    # Only its classes are read: an App that is not opened touches no store.
    app = duly.App("sqlite:///duly.db", environment={})
    yield "## Resources\n\nEach is an attribute of an `App` and of a `Client`.\n\n"
    for name, protocol in RESOURCES.items():
        yield f"### {name}\n\n"
        for method, declared in inspect.getmembers(protocol, inspect.isfunction):
            if not method.startswith("_"):
                meant = getattr(getattr(app, name), method)
                yield f"#### {name}.{method}\n\n" + _called(f"app.{name}.{method}", declared, meant)


def _called(name: str, function: Callable[..., Any], documented: object) -> str:
    return f"```python\n{signature(name, function)}\n```\n\n{documentation(documented)}\n\n"


def signature(name: str, function: Callable[..., Any]) -> str:
    """The signature as it is written: a default that is read at run time is shown by its name."""
    source = ast.parse(dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    assert isinstance(source, ast.FunctionDef | ast.AsyncFunctionDef)
    own = [each for each in source.args.posonlyargs + source.args.args if each.arg == "self"]
    for arguments in (source.args.posonlyargs, source.args.args):
        arguments[:] = [each for each in arguments if each not in own]
    awaited = "await " if isinstance(source, ast.AsyncFunctionDef) else ""
    answer = f" -> {ast.unparse(source.returns)}" if source.returns else ""
    return f"{awaited}{name}({ast.unparse(source.args)}){answer}"


def documentation(found: object) -> str:
    """The docstring, without the indentation of the source."""
    return inspect.getdoc(found) or ""
