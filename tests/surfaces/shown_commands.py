"""Every command that shows stored data, to be run on a store with one of everything."""

from __future__ import annotations

from collections.abc import Sequence

from duly.surfaces.cli.command_line import COMMANDS

ARGUMENTS: dict[str, Sequence[tuple[str, ...]]] = {
    "deliver": [("log", '"x"')],
    "send": [("billing", "--data", "1")],
    "verify": [("--id", "x", "--timestamp", "1", "--signature", "v1,x", "--secret", "whsec_AAAA")],
    "deliveries": [("list",), ("list", "--state", "dead"), ("show", "<dead>"), ("show", "<sent>")],
    "schedules": [
        ("list",),
        ("show", "<schedule>"),
        ("preview", "<schedule>"),
        ("show", "none"),
        ("orphans",),
    ],
    "calendars": [("list",), ("show", "nrw"), ("show", "none")],
    "endpoints": [
        ("list",),
        ("show", "billing"),
        ("test", "billing"),
        ("edit", "billing", "--rate", "7"),
        ("pause", "billing", "--reason", "a while"),
        ("resume", "billing"),
        ("remove", "billing"),
        ("edit", "billing", "--url", "<url>x y"),
    ],
    "limits": [("list",), ("show", "endpoint:billing"), ("show", "none"), ("keys", "none")],
    "streams": [("list",), ("show", "<stream>")],
    "batches": [("list",), ("show", "<batch>")],
    "dead": [("list",), ("groups",), ("show", "<dead>"), ("poison", "--last-attempts")],
    "recovery": [("list",), ("generations",)],
    "status": [()],
    "stats": [()],
    "outages": [()],
    "alerts": [(), ("list",)],
    "workers": [("list",)],
    "top": [()],
    "late": [("--grace", "0s")],
    "stuck": [()],
    "audit": [()],
    "keys": [("list",)],
    "migrate": [("status",)],
    "doctor": [()],
    "prune": [("--dry-run",)],
    "demo": [("--remove",)],
    "config": [("show", "--origin"), ("validate",)],
}
EXCLUDED = {
    "init": "it shows nothing that is stored",
    "health": "it prints the answer of a server like every command",
    "serve": "its log has its own test",
    "work": "its log has its own test",
    "mcp": "its tools have their own test",
    "listen": "it prints requests like every command",
    "export": "a file for programs",
    "backup": "a file for programs",
    "completion": "a script for a shell",
    "import": "it prints numbers",
    "bench": "it prints numbers",
}


def commands_to_run() -> list[tuple[str, ...]]:
    """The commands with their arguments; names in <> are placeholders for names in the store."""
    assert set(ARGUMENTS) | set(EXCLUDED) == set(COMMANDS), (
        "add the arguments of a new command here"
    )
    return [(name, *more) for name, ways in ARGUMENTS.items() for more in ways]
