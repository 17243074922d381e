"""Where code declares a schedule, and what ends that."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Origin(msgspec.Struct, frozen=True):
    """The program whose code declares a schedule, and the module and function in it."""

    program: str
    place: str
    left_at: datetime | None = None
    """When the program started and its code did not declare the schedule any more."""

    @property
    def module(self) -> str:
        """The module that declares it."""
        return self.place.rpartition(".")[0]


def after_takeover(origin: Origin | None, program: str | None) -> Origin | None:
    """The origin of a schedule that is declared by name, as `await app.schedule(name, ...)` does.

    It is no longer that of the code if it left the code, or if `program`, which declared it with a
    decorator before, now declares it by name.
    """
    if origin is None or origin.left_at is not None or origin.program == program:
        return None
    return origin
