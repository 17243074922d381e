"""`duly serve` and `duly work`: the engine, with and without the HTTP port."""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import uvloop
from cyclopts import Parameter

from duly.app import App
from duly.stores.sqlite import Sqlite
from duly.surfaces.cli.apps import Path, imported_app, logging_app
from duly.surfaces.cli.config import without_secrets
from duly.surfaces.cli.logs import configure
from duly.surfaces.cli.options import Database, database_of
from duly.surfaces.cli.render import talk
from duly.version import __version__

logger = logging.getLogger("duly.serve")

Concurrency = Annotated[
    int | None, Parameter(help="How many deliveries this process attempts at once.")
]
Host = Annotated[str | None, Parameter(help="The address to listen on.")]
Port = Annotated[int | None, Parameter(help="The port to listen on; 0 takes a free one.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Work:
    """The settings of a worker that have flags."""

    database: Database = None
    namespace: Annotated[str | None, Parameter(help="Whose deliveries.")] = None
    concurrency: Concurrency = None


WORK = Work()


def serve(
    app: Path | None = None, /, *, host: Host = None, port: Port = None, flags: Work = WORK
) -> None:
    """Run it all: the engine and the HTTP port.

    Parameters
    ----------
    app
        Where your App is; without it only the built-in handler `log` runs.
    """
    from duly.surfaces.http.site import serve_site

    configure()
    given = asdict(flags) | {"host": host, "port": port}
    served = logging_app(given) if app is None else imported_app(app, given)
    uvloop.run(serve_site(served, lambda url: _announce(served, url)))


def work(app: Path, /, *, flags: Work = WORK) -> None:
    """Run the engine only.

    Parameters
    ----------
    app
        Where your App is.
    """
    configure()
    uvloop.run(imported_app(app, asdict(flags)).run())


def _announce(app: App, url: str) -> None:
    """Say what runs, where, on what data, and what to try."""
    facts: dict[str, Any] = {
        "version": __version__,
        "url": url,
        "data": whereabouts(app),
        "handlers": sorted(app.handlers.serves()),
        "try": [f"curl {url}/health", "duly deliveries list"],
    }
    if facts["handlers"]:
        facts["try"].insert(0, f'duly deliver {facts["handlers"][0]} \'{{"hello": "world"}}\'')
    if sys.stderr.isatty():
        talk(_banner(facts))
    else:
        message = f"duly {__version__} listens on {url}, its data is in {facts['data']}"
        logger.info(message, extra={"event": "Serving", "facts": facts})


def _banner(facts: dict[str, Any]) -> str:
    tries = "\n             ".join(facts["try"])
    return (
        f"\n  duly {facts['version']} listens on {facts['url']}\n\n"
        f"  data       {facts['data']}\n"
        f"  handlers   {', '.join(facts['handlers']) or 'none'}\n"
        f"  try        {tries}\n\n"
        "  Ctrl-C stops it, and running deliveries may end first.\n"
    )


def whereabouts(app: App) -> str:
    """Where the app's data is, without secrets."""
    database = database_of(app)
    if isinstance(database, Sqlite):
        return str(database.path.resolve())
    if app.settings.database.startswith("postgres"):
        return without_secrets(app.settings.database)
    return "PostgreSQL, over connections of the app's own"
