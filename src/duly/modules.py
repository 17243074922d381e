"""Python modules: their names, and which of them this process has loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import PurePath

PACKAGE = __name__.partition(".")[0]
MAIN = "__main__"


def calling_module() -> str:
    """The module whose code called duly."""
    frame = sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return module_name(frame.f_globals.get("__name__", MAIN))


def _is_ours(module: str) -> bool:
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


def module_name(name: str) -> str:
    """The name by which others import the module, also of the one that Python was started with."""
    if name != MAIN:
        return name
    main = sys.modules[MAIN]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name).removesuffix(f".{MAIN}")
    return MAIN if file is None else PurePath(file).stem


def is_unloaded(name: str) -> bool:
    """Whether the module could be imported here and was not; it is not imported to find out."""
    if name in sys.modules or name == module_name(MAIN):
        return False
    path: Sequence[str] | None = None
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        found = _found(".".join(parts[:count]), path)
        if found is None:
            return False
        path = found.submodule_search_locations
        if path is None and count < len(parts):
            return False
    return True


def _found(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        # Finders of other libraries may be incomplete; imports pass over those as well.
        with suppress(Exception):
            if (spec := finder.find_spec(name, path, None)) is not None:
                return spec
    return None
