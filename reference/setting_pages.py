"""The page about the settings, from their declarations."""

from __future__ import annotations

from duly.settings import Described, described
from reference.tables import row

INTRODUCTION = """# Settings

A setting comes from a flag or an argument, then from the environment, then from `duly.toml`, then
from its default. Durations are in seconds. [Settings](../settings.md) explains where
to set them and which depend on each other.

| setting | variable | default | allowed | meaning |
|---|---|---|---|---|
"""


def page() -> str:
    """All settings with their defaults."""
    return INTRODUCTION + "".join(map(_row, described()))


def _row(setting: Described) -> str:
    names = f"`{setting.name}`", f"`{setting.variable}`", f"`{setting.default}`"
    return row(*names, setting.allowed, setting.description)
