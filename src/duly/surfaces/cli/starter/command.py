"""`duly init`: writes a starter project, and prints how to run it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from duly.errors import Conflict, DulyError
from duly.settings import load
from duly.surfaces.cli.terminal.flags import Json
from duly.surfaces.cli.terminal.invocation import called
from duly.surfaces.cli.terminal.output import answer, print_message
from duly.surfaces.process.addresses import local_url

THIS_FOLDER = Path()
PYTHON_FILES = ("app.py", "test_app.py")
IGNORED = ".gitignore"


class CannotWrite(DulyError):
    """The project could not be written."""


def init(folder: Path = THIS_FOLDER, /, *, json: Json = False) -> None:
    """Write a starter project: a handler, a schedule and a test.

    Files that exist are not overwritten. It prints the commands that test and run the project.

    Parameters
    ----------
    folder
        Where to write it; a folder that does not exist is created.
    """
    # Not `resolve`, which raises RuntimeError for a circle of links.
    whole = Path(os.path.realpath(folder))
    try:
        settings = load({}, os.environ, whole)
        written = _written(whole)
    except OSError as error:
        raise CannotWrite(
            f"{whole} cannot be written: {error.strerror or error}; "
            "give another folder: duly init FOLDER"
        ) from error
    document = {"folder": str(whole), "files": written}
    dashboard = local_url(settings.host, settings.port)
    answer(
        json,
        document,
        lambda: f"wrote {', '.join(written)} in {whole}\n\n{_next_steps(folder, whole, dashboard)}",
    )


def _written(folder: Path) -> list[str]:
    """Write the files; returns their names."""
    _refuse_existing(folder)
    contents = {name: _template(name) for name in PYTHON_FILES}
    # In a repository there is often one already.
    if not (has_own := os.path.lexists(folder / IGNORED)):
        contents[IGNORED] = _template(IGNORED)
    _write(folder, contents)
    if has_own:
        print_message(f"{IGNORED} exists and was not changed; add a line to it: duly.db*")
    return list(contents)


def _refuse_existing(folder: Path) -> None:
    # A package `app` would be imported instead of app.py.
    found = [name for name in (*PYTHON_FILES, "app") if os.path.lexists(folder / name)]
    if found:
        raise Conflict(
            f"{folder} already has {', '.join(found)}, so nothing was written; "
            "rename what is there, or give another folder: duly init FOLDER"
        )


def _template(name: str) -> str:
    # Text, not modules: they are programs of the user, in whose folder alone their imports work.
    return (files(__package__) / "template" / f"{name.lstrip('.')}.txt").read_text("utf-8")


def _write(folder: Path, contents: Mapping[str, str]) -> None:
    """Write all files elsewhere and rename them, so that a kill leaves no part of one."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".duly-init.", dir=folder) as parts:
        for name, text in contents.items():
            Path(parts, name).write_text(text, "utf-8")
        for name in contents:
            os.rename(Path(parts, name), folder / name)


def _next_steps(folder: Path, whole: Path, dashboard: str) -> str:
    duly = called()
    enter = [] if whole == Path.cwd() else [(f"cd {shlex.quote(str(folder))}", "")]
    here = [
        *enter,
        (_pytest(), "runs test_app.py" if find_spec("pytest") else "install pytest first"),
        (f"{duly} serve app:app", f"runs app.py; the dashboard is at {dashboard}"),
    ]
    elsewhere = [
        (f"cd {shlex.quote(str(whole))}", ""),
        (f"""id=$({duly} deliver app.greet '{{"name": "Ada"}}')""", "accepts a delivery"),
        (f"{duly} deliveries show $id --wait 30s", "shows the result of the handler"),
    ]
    return (
        f"Test it and run it:\n\n{_listed(here)}\n\n"
        f"In another terminal, deliver something:\n\n{_listed(elsewhere)}"
    )


def _pytest() -> str:
    """The pytest of this Python; the shell may find one that cannot import duly."""
    found = shutil.which("pytest")
    if found and Path(found) == Path(sys.executable).with_name("pytest"):
        return "pytest"
    return f"{shlex.quote(sys.executable)} -m pytest"


def _listed(commands: Sequence[tuple[str, str]]) -> str:
    width = max(len(command) for command, _ in commands)
    return "\n".join(
        f"  {command:<{width}}  # {what}" if what else f"  {command}" for command, what in commands
    )
