"""`duly config`: the settings in effect, and their origins."""

from __future__ import annotations

import os
from typing import Annotated

from cyclopts import App, Parameter

from duly.domain.database_urls import shown
from duly.errors import InvalidInput
from duly.records.target import HIDDEN
from duly.settings import ADDRESSES, SECRETS, Settings, problems
from duly.surfaces.cli.terminal.exit_codes import BAD_USAGE
from duly.surfaces.cli.terminal.flags import COMMON, Common, app_for
from duly.surfaces.cli.terminal.output import answer, items, print_message, table

commands = App(name="config", help="Show and check the settings.")


@commands.command
def show(
    *,
    origin: Annotated[bool, Parameter(negative=(), help="Show where values come from.")] = False,
    common: Common = COMMON,
) -> None:
    """Show every setting with its value."""
    settings = app_for(common).settings
    rows = [
        {"name": name, "value": _shown(settings, name), "origin": comes_from}
        for name, comes_from in settings.origins.items()
    ]
    columns = ("name", "value", "origin") if origin else ("name", "value")
    answer(
        common.json,
        items(rows),
        lambda: table(
            ("setting", *columns[1:]), ([row[each] for each in columns] for row in rows), ("value",)
        ),
    )


def _shown(settings: Settings, name: str) -> object:
    value = getattr(settings, name)
    if name in ADDRESSES:
        return shown(str(value))
    return HIDDEN if name in SECRETS and value else value


@commands.command
def validate(*, common: Common = COMMON) -> int:
    """Check all settings, and list those that are not valid."""
    flags = {
        "database": common.database,
        "namespace": common.namespace,
        "server": common.server,
    }
    found: list[InvalidInput] = list(problems(flags, os.environ))
    if not found:
        try:
            app_for(common)
        except InvalidInput as error:
            found.append(error)
    listed = [{"setting": each.field, "problem": each.problem} for each in found]
    answer(
        common.json,
        {"valid": not found, "problems": listed},
        lambda: f"{len(found)} settings are not valid" if found else "all settings are valid",
    )
    for each in found:
        print_message(f"error: {each}")
    return BAD_USAGE if found else 0
