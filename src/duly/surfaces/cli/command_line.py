"""All commands by name; each is imported when it is used."""

from __future__ import annotations

from cyclopts import App

from duly.version import __version__

COMMANDS = {
    "init": "starter.command:init",
    "serve": "server.serve:serve",
    "work": "server.serve:work",
    "deliver": "deliveries.deliver:deliver",
    "send": "deliveries.send:send",
    "listen": "receiving.listen:listen",
    "verify": "receiving.verify:verify",
    "deliveries": "deliveries.commands:commands",
    "schedules": "schedules.commands:commands",
    "calendars": "schedules.calendars:commands",
    "endpoints": "endpoints.commands:commands",
    "limits": "limits:commands",
    "streams": "streams:commands",
    "batches": "batches:commands",
    "dead": "dead_letters.commands:commands",
    "recovery": "dead_letters.recovery:commands",
    "status": "monitoring.status:status",
    "health": "monitoring.health:health",
    "stats": "monitoring.stats:stats",
    "outages": "monitoring.outages:outages",
    "alerts": "monitoring.alerts:commands",
    "workers": "workers:commands",
    "top": "top.command:top",
    "late": "workers:late",
    "stuck": "workers:stuck",
    "mcp": "mcp:mcp",
    "audit": "access.audit:audit",
    "keys": "access.keys:commands",
    "migrate": "server.migrate:commands",
    "doctor": "server.doctor:doctor",
    "prune": "server.prune:prune",
    "backup": "transfer.backup:backup",
    "export": "transfer.exporting:export",
    "import": "transfer.importing:import_",
    "bench": "server.bench:bench",
    "demo": "demo.command:demo",
    "config": "server.config:commands",
    "completion": "completion:completion",
}


def command_line(*, overview: bool) -> App:
    """The command line; the overview imports every command for its summary."""
    app = App(
        name="duly",
        help="A durable scheduler and delivery engine.",
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
