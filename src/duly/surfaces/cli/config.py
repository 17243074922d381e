"""`duly config`: which settings are in force, and where they come from."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
from cyclopts import App

from duly.domain.webhooks import HIDDEN
from duly.settings import SECRETS
from duly.surfaces.cli.options import COMMON, Common, app_for
from duly.surfaces.cli.render import answer, items, table

commands = App(name="config", help="Look at the settings.")


@commands.command
def show(*, common: Common = COMMON) -> None:
    """Show every setting with its value and origin."""
    settings = app_for(common).settings
    values = msgspec.structs.asdict(settings)
    rows = [
        {"name": name, "value": values[name], "origin": origin}
        for name, origin in settings.origins.items()
    ]
    for row in rows:
        if row["name"] == "database":
            row["value"] = without_secrets(settings.database)
        elif row["name"] in SECRETS and row["value"]:
            row["value"] = HIDDEN
    answer(
        common.json,
        items(rows),
        lambda: table(("setting", "value", "origin"), (tuple(row.values()) for row in rows)),
    )


def without_secrets(url: str) -> str:
    """An address that may be shown: its password is left out."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if ":" in user:
        user = f"{user.partition(':')[0]}:{HIDDEN}"
    query = [(name, HIDDEN if "pass" in name else value) for name, value in parse_qsl(parts.query)]
    shown = f"{parts.scheme}://{user}{at}{host}{parts.path}"
    return f"{shown}?{urlencode(query, safe='*/')}" if query else shown
