"""Every command on the pages for operators exists, with the options that it is given there."""

import re
import shlex
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from duly.surfaces.cli.command_line import command_line

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [
    *sorted((DOCS / "operations").glob("*.md")),
    DOCS / "dead-letters.md",
    DOCS / "recovery.md",
]
COMMAND = re.compile(r"^\s*(?:\$ |\S*/bin/)?(duly \S.*)$", re.MULTILINE)
BLOCK = re.compile(r"^\s*```(?:sh)?\n(.*?)^\s*```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(duly [^`]+)`")


def commands() -> list[str]:
    """The commands in blocks and in text, without comments."""
    texts = [page.read_text() for page in PAGES]
    blocks = [
        each for text in texts for block in BLOCK.findall(text) for each in COMMAND.findall(block)
    ]
    inline = [each for text in texts for each in INLINE.findall(text)]
    return sorted({each.partition("#")[0].strip() for each in (*blocks, *inline)})


def test_the_pages_contain_commands() -> None:
    assert len(commands()) > 30


@pytest.mark.requirement("S6")
@pytest.mark.parametrize("command", commands())
def test_a_command_is_understood(command: str) -> None:
    words = shlex.split(command.replace("...", "2026-11-16T09:00Z"))[1:]
    try:
        command_line(overview=False).parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        pytest.fail(f"{command}: {error}")
