"""Read the instructions of the Dockerfile."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """Every instruction with its argument; continued lines are joined."""
    text = (PROJECT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [each.strip() for each in text.splitlines() if each.strip() and each[0] != "#"]
    return [(each.partition(" ")[0], each.partition(" ")[2].strip()) for each in lines]


def arguments(name: str) -> list[str]:
    """The arguments of every instruction with that name."""
    return [argument for each, argument in instructions() if each == name]


def command(name: str) -> list[str]:
    """A command in its list form."""
    (argument,) = arguments(name)
    found: list[str] = json.loads(argument[argument.index("[") :])
    return found


def environment() -> dict[str, str]:
    """The variables that are set in the last stage."""
    (argument,) = [each for each in arguments("ENV") if "PATH=" in each]
    return dict(each.split("=", 1) for each in shlex.split(argument))
