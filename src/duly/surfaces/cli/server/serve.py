"""`duly serve` and `duly work`: the engine with and without the HTTP server."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any

import uvloop
from cyclopts import Parameter

from duly.app import App
from duly.domain.database_urls import shown
from duly.domain.roles import Role, refuse_several
from duly.engine.stopping import Stop
from duly.errors import InvalidInput
from duly.settings import load
from duly.signals import listen_for_signals
from duly.stores.postgres.address import ignored_parameters
from duly.stores.sqlite.database import Sqlite
from duly.surfaces.cli.demo.sample_names import HOST
from duly.surfaces.cli.server.app_loading import Path, imported_app, logging_app
from duly.surfaces.cli.server.log_format import configure
from duly.surfaces.cli.terminal.exit_codes import FAILED, run_command
from duly.surfaces.cli.terminal.flags import Database, database_of
from duly.surfaces.cli.terminal.invocation import called
from duly.surfaces.cli.terminal.output import print_message
from duly.surfaces.process.addresses import bound
from duly.surfaces.process.notify import for_systemd
from duly.surfaces.server.prefork import Parent
from duly.surfaces.server.serving import PATIENCE_SECONDS, Announce, ServerContext
from duly.surfaces.server.serving import serve as serve_at
from duly.system import SystemClock, end_within, is_first_process
from duly.version import __version__

logger = logging.getLogger("duly.serve")

Concurrency = Annotated[
    int | None, Parameter(help="How many deliveries one process attempts at once.")
]
Processes = Annotated[int | None, Parameter(help="How many processes to run, on PostgreSQL.")]
Host = Annotated[str | None, Parameter(help="The address to listen on.")]
Port = Annotated[int | None, Parameter(help="The port to listen on; 0 takes a free one.")]
Roles = Annotated[
    str | None,
    Parameter(
        help="The roles to run: some of api,worker,planner. Other processes need the others."
    ),
]
Namespaces = Annotated[
    str | None,
    Parameter(help="The namespaces to work for: names separated by commas, or * for all."),
]
Wait = Annotated[
    bool,
    Parameter(negative=(), help="Wait while the store cannot be reached, instead of failing."),
]
Demo = Annotated[
    bool,
    Parameter(negative=(), help="Add sample traffic; `duly demo --remove` removes it."),
]
Mcp = Annotated[
    bool | None,
    Parameter(negative=(), help="Offer tools to Model Context Protocol clients at /mcp."),
]
WORKING = "worker,planner"
EXIT_SECONDS = 2.0
SAMPLE = '{"hello": "world"}'
"""The payload of the delivery to try."""


@Parameter(name="*")
@dataclass(frozen=True)
class Work:
    """The settings of a worker that have flags."""

    database: Database = None
    namespace: Annotated[str | None, Parameter(help="The namespace.")] = None
    namespaces: Namespaces = None
    concurrency: Concurrency = None
    processes: Processes = None
    generation: Annotated[
        str | None,
        Parameter(
            help="The generation of this deployment, one word: when a new one starts, dead letters "
            "with a recovery policy get one try in it."
        ),
    ] = None
    log_level: Annotated[
        str | None, Parameter(help="The lowest level to log: debug, info, warning or error.")
    ] = None


WORK = Work()


@dataclass(frozen=True)
class Start:
    """What a server process is started with."""

    path: str | None
    flags: Mapping[str, Any]
    wait: bool
    demo: bool = False


def serve(
    app: Path | None = None,
    /,
    *,
    host: Host = None,
    port: Port = None,
    role: Roles = None,
    mcp: Mcp = None,
    wait: Wait = False,
    demo: Demo = False,
    flags: Work = WORK,
) -> int:
    """Run the engine and the HTTP server.

    On PostgreSQL it can run in several processes, and with some of the roles only.

    Parameters
    ----------
    app
        Where your App is; without it only the built-in handler `log` runs.
    """
    given = asdict(flags) | {"host": host, "port": port, "role": role, "mcp": mcp}
    return _run(Start(app, _for_demo(given) if demo else given, wait, demo))


def work(app: Path, /, *, wait: Wait = False, flags: Work = WORK) -> int:
    """Run the engine only.

    Parameters
    ----------
    app
        Where your App is.
    """
    return _run(Start(app, asdict(flags) | {"role": WORKING}, wait))


def _for_demo(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags with this machine as an allowed address, for the receiver of the demo."""
    settings = load(flags, os.environ)
    if settings.processes > 1:
        raise InvalidInput("demo", "it needs one process; leave --processes out, or set it to 1")
    allowed = settings.egress_allow.replace(",", " ").split()
    return {**flags, "egress_allow": " ".join(dict.fromkeys([*allowed, HOST]))}


def _run(start: Start) -> int:
    settings, notices = load(start.flags, os.environ), for_systemd(os.environ)
    configure(settings.log_level)
    if settings.processes == 1 and not is_first_process():
        return _serve(start, ServerContext(notices))
    listener = bound(settings.host, settings.port) if Role.API in settings.roles else None
    # The address is bound once for all processes, so none may use another.
    flags = dict(start.flags) | {"host": settings.host, "port": settings.port}
    shared = replace(start, flags=flags)
    parent = Parent(
        settings.processes,
        lambda place, first: run_command(lambda: _serve(shared, place, announced=first)),
        SystemClock(),
        notices,
        settings.drain,
    )
    return parent.run(listener)


def _serve(start: Start, place: ServerContext, *, announced: bool = True) -> int:
    stop, flags = Stop(), start.flags
    with listen_for_signals(stop.request):
        app = logging_app(flags) if start.path is None else imported_app(start.path, flags)
        configure(app.settings.log_level)
        refuse_several(app.settings.processes, app.store.single_owner)
        # A handler that blocks the event loop would keep it from stopping.
        stop.on_request = partial(end_within, app.settings.drain + PATIENCE_SECONDS, FAILED)
        announce = (lambda url: _announce(app, url)) if announced else _announce_nothing
        run = _served_with_traffic if start.demo else _served
        uvloop.run(run(app, place, announce, stop, start.wait))
    return 0


async def _served(
    app: App, place: ServerContext, announce: Announce, stop: Stop, wait: bool
) -> None:
    await serve_at(app, place, announce, stop, waits=wait)
    # Threads that handlers left behind must not keep the process from ending.
    end_within(EXIT_SECONDS, 0)


async def _served_with_traffic(
    app: App, place: ServerContext, announce: Announce, stop: Stop, wait: bool
) -> None:
    # Imported here: a usual server does not load the receiver.
    from duly.surfaces.cli.demo.sample_traffic import sample_traffic

    async with sample_traffic(app, stop) as begin:

        def announce_and_begin(url: str | None) -> None:
            announce(url)
            begin()

        await _served(app, place, announce_and_begin, stop, wait)


def _announce_nothing(_url: str | None) -> None:
    """Another process announced the address."""


def _announce(app: App, url: str | None) -> None:
    for name, reason in ignored_parameters(app.settings.database).items():
        logger.info("the parameter %s of the database URL is ignored: %s", name, reason)
    handlers = sorted(app.handlers.serves())
    duly = called()
    facts: dict[str, Any] = {
        "version": __version__,
        "does": f"listens on {url}" if url else "listens on no port",
        "url": url,
        "roles": sorted(app.settings.roles),
        "processes": app.settings.processes,
        "data": data_location(app),
        "handlers": handlers,
        "try": [f"curl {url}/health" if url else f"{duly} status", f"{duly} deliveries list"],
    }
    for name in sorted(app.handlers.taking(SAMPLE.encode()))[:1]:
        facts["try"].insert(0, f"{duly} deliver {name} '{SAMPLE}'")
    if sys.stderr.isatty():
        print_message(_banner(facts))
    else:
        message = f"duly {__version__} {facts.pop('does')}, its data is in {facts['data']}"
        logger.info(message, extra={"event": "Serving", "facts": facts})


def _banner(facts: dict[str, Any]) -> str:
    tries = "\n             ".join(facts["try"])
    return (
        f"\n  duly {facts['version']} {facts['does']}\n\n"
        f"  data       {facts['data']}\n"
        f"  roles      {', '.join(facts['roles'])}\n"
        f"  processes  {facts['processes']}\n"
        f"  handlers   {', '.join(facts['handlers']) or 'none'}\n"
        f"  try        {tries}\n\n"
        "  Press Ctrl-C to stop; running deliveries may finish first.\n"
    )


def data_location(app: App) -> str:
    """The location of the app's data, without secrets."""
    database = database_of(app)
    if isinstance(database, Sqlite):
        return str(database.path.resolve())
    if app.settings.database.startswith("postgres"):
        return shown(app.settings.database)
    return "PostgreSQL, over the app's own connections"
