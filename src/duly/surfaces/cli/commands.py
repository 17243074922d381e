"""Every command by its name; each is imported when it is asked for."""

from __future__ import annotations

from cyclopts import App

from duly.version import __version__

COMMANDS = {
    "serve": "serve:serve",
    "work": "serve:work",
    "deliver": "deliver:deliver",
    "send": "send:send",
    "listen": "listen:listen",
    "verify": "verify:verify",
    "deliveries": "deliveries:commands",
    "schedules": "schedules:commands",
    "endpoints": "endpoints:commands",
    "streams": "streams:commands",
    "dead": "dead:commands",
    "status": "status:status",
    "health": "health:health",
    "stats": "stats:stats",
    "alerts": "alerts:commands",
    "workers": "workers:commands",
    "top": "top:top",
    "late": "workers:late",
    "stuck": "workers:stuck",
    "audit": "audit:audit",
    "keys": "keys:commands",
    "migrate": "migrate:commands",
    "doctor": "doctor:doctor",
    "prune": "prune:prune",
    "backup": "backup:backup",
    "export": "export:export",
    "import": "importing:import_",
    "bench": "bench:bench",
    "config": "config:commands",
    "completion": "completion:completion",
}


def command_line(*, overview: bool) -> App:
    """The whole command line; for an overview every command is imported, for its summary."""
    app = App(
        name="duly",
        help="Everything that is due is delivered, once, however long we were away.",
        version=f"duly {__version__}",
        version_flags=["--version", "-V"],
        print_error=False,
        exit_on_error=False,
    )
    for position, (name, path) in enumerate(COMMANDS.items()):
        app.command(f"{__package__}.{path}", name=name, sort_key=position)
        if overview:
            app[name]
    return app
