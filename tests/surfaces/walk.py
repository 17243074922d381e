"""Every command that shows something, to be run on books with something of everything on them."""

from __future__ import annotations

from collections.abc import Sequence

from duly.surfaces.cli.command_line import COMMANDS

SHOWING: dict[str, Sequence[tuple[str, ...]]] = {
    "deliver": [("log", '"x"')],
    "send": [("billing", "--data", "1")],
    "verify": [("--id", "x", "--timestamp", "1", "--signature", "v1,x", "--secret", "whsec_AAAA")],
    "deliveries": [("list",), ("list", "--state", "dead"), ("show", "<dead>"), ("show", "<sent>")],
    "schedules": [("list",), ("show", "<schedule>"), ("preview", "<schedule>"), ("show", "none")],
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
    "streams": [("list",), ("show", "<stream>")],
    "dead": [("list",), ("groups",), ("show", "<dead>"), ("poison", "--last-attempts")],
    "status": [()],
    "stats": [()],
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
    "config": [("show", "--origin"), ("validate",)],
}
ELSEWHERE = {
    "health": "it prints what a server answers, as every command does",
    "serve": "its log is looked at",
    "work": "its log is looked at",
    "listen": "it prints what comes in as every command prints",
    "export": "a file for programs",
    "backup": "a file for programs",
    "completion": "a script for a shell",
    "import": "it prints numbers",
    "bench": "it prints numbers",
}


def walk() -> list[tuple[str, ...]]:
    """The commands with their arguments; names in <> stand for what is on the books."""
    assert set(SHOWING) | set(ELSEWHERE) == set(COMMANDS), "say how a new command is run"
    return [(name, *more) for name, ways in SHOWING.items() for more in ways]
