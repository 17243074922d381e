"""What can happen while `duly top` runs."""

from __future__ import annotations

from dataclasses import dataclass

from duly.records.status import Top
from duly.surfaces.cli.top.content import Content
from duly.surfaces.cli.top.views import View


@dataclass(frozen=True, slots=True)
class Pressed:
    """A key was pressed."""

    key: str


@dataclass(frozen=True, slots=True)
class Resized:
    """The terminal has this size."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Read:
    """The store or server answered."""

    view: View
    content: Content
    figures: Top


@dataclass(frozen=True, slots=True)
class NotRead:
    """The store or server did not answer, or refused."""

    view: View
    problem: str


@dataclass(frozen=True, slots=True)
class Waited:
    """So many seconds have passed since the question that is not answered yet."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Progressed:
    """A move is under way."""

    text: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A move ended, well or not."""

    text: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """A signal asked to leave, or the terminal was closed."""


Event = Pressed | Resized | Read | NotRead | Waited | Progressed | Moved | Stopped
