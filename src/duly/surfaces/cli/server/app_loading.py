"""The App that a server runs: the one at `module:app`, or one that only logs."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from duly.app import App
from duly.errors import DulyError, InvalidInput

logger = logging.getLogger("duly.log")
Path = Annotated[str, Parameter(name="module:app")]
SHOWN = 2000
"""Characters of a payload that the built-in handler logs."""


def imported_app(path: str, flags: Mapping[str, Any]) -> App:
    """The App at `module:app`, with the flags applied.

    The import builds it, so the flags are set as environment variables before.
    """
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise InvalidInput("app", f"{path!r} is not an app; write module:app, as in shop.main:app")
    given = {each: value for each, value in flags.items() if value is not None}
    os.environ.update({f"DULY_{each.upper()}": str(value) for each, value in given.items()})
    sys.path.insert(0, os.getcwd())
    app = _attribute(_module(module), name)
    _refuse_ignored(path, app, given)
    return app


def _module(name: str) -> object:
    try:
        return importlib.import_module(name)
    except DulyError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            raise InvalidInput(
                "app", f"there is no module {error.name!r}; {os.getcwd()} was searched first"
            ) from error
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
        raise InvalidInput(
            "app", f"importing {name!r} failed at {place}: {type(error).__name__}: {error}"
        ) from error


def _attribute(module: Any, name: str) -> App:
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidInput("app", f"{module.__name__!r} has no {name!r}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise InvalidInput(
            "app", f"{module.__name__}:{name} is not a duly.App but a {type(found).__name__}"
        )
    return found


def _refuse_ignored(path: str, app: App, flags: Mapping[str, Any]) -> None:
    """Refuse a flag that the app's own arguments would override."""
    for name, value in flags.items():
        if getattr(app.settings, name) != value:
            raise InvalidInput(
                name, f"{path} sets it itself; remove the flag, or the argument of App(...)"
            )


def logging_app(flags: Mapping[str, Any]) -> App:
    """An App with one handler, `log`, which logs its deliveries."""
    app = App(**flags)

    @app.handler("log")
    async def log(delivery: Any) -> None:
        text = msgspec.json.encode(delivery.payload).decode()[:SHOWN]
        facts = {"delivery": delivery.id, "attempt": delivery.attempt, "payload": text}
        logger.info("%s", text, extra={"event": "Logged", "facts": facts})

    return app
