"""The page about the commands, from their help texts."""

from __future__ import annotations

import re

from duly.surfaces.cli.command_line import command_line

INTRODUCTION = """# Commands

Every command prints data to stdout and messages to stderr. Exit codes: 0 done, 1 failed, 2 bad
usage or settings, 3 not found, 4 no store or server, 5 conflict. `duly COMMAND --help` prints what
this page has.

"""
HEADER = re.compile(r"\A.*?(?=^\*\*Commands\*\*:)", re.DOTALL | re.MULTILINE)


def page() -> str:
    """All commands with their arguments and options."""
    text = command_line(overview=True).generate_docs(output_format="markdown")
    return INTRODUCTION + HEADER.sub("", text, count=1)
