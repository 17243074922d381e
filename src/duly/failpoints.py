"""Failpoints: named places in the code where tests inject failures; they cost nothing when off.

`DULY_FAILPOINTS` arms them, as in `settle.before=kill@3;claim.after=sleep:2`: the action, for
`sleep` its seconds, and at which hits (`@3` the third, `%7` every seventh; else every one).
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import signal
import time
from collections.abc import Mapping

import msgspec

from duly.errors import BadSetting

ACTIONS = ("kill", "stop", "sleep", "raise", "drop", "full")
PLACES = (
    frozenset(
        f"{place}.{when}"
        for place in ("deliver", "claim", "settle", "heartbeat", "reclaim", "retry", "step")
        for when in ("before", "after")
    )
    | frozenset(
        f"{place}.{when}"
        for place in (
            "plan",
            "schedule",
            "complete",
            "import",
            "stream",
            "decide",
            "revive",
            "finish",
        )
        for when in ("before", "middle", "after")
    )
    | {f"webhook.{when}" for when in ("before", "sent", "answered")}
    | {"handler.enter", "handler.exit", "migrate.middle", "deliver.middle", "settle.middle"}
)


class Failpoint(msgspec.Struct):
    """The action of one failpoint, and the hits at which it happens."""

    action: str
    seconds: float = 0.0
    only: int = 0
    every: int = 1
    hits: int = 0

    def is_now(self) -> bool:
        """Count a hit; whether the action happens at this one."""
        self.hits += 1
        return self.hits == self.only if self.only else self.hits % self.every == 0


class FailpointRaised(Exception):
    """Raised by an armed failpoint with the action `raise`."""


armed: dict[str, Failpoint] = {}


def arm(description: str) -> None:
    """Arm the failpoints in the text and disarm all others."""
    armed.clear()
    for each in filter(None, description.split(";")):
        place, _, rest = each.strip().partition("=")
        if place not in PLACES:
            raise BadSetting(
                "DULY_FAILPOINTS", f"no failpoint {place!r}; there are " + ", ".join(sorted(PLACES))
            )
        armed[place] = _failpoint(rest)


def _failpoint(text: str) -> Failpoint:
    point = Failpoint("")
    text, _, only = text.partition("@")
    text, _, every = text.partition("%")
    point.action, _, seconds = text.partition(":")
    if point.action not in ACTIONS:
        raise BadSetting(
            "DULY_FAILPOINTS", f"no action {point.action!r}; there are " + ", ".join(ACTIONS)
        )
    try:
        point.only, point.every, point.seconds = (
            int(only or 0),
            int(every or 1),
            float(seconds or 0),
        )
    except ValueError as error:
        raise BadSetting(
            "DULY_FAILPOINTS", f"{error}; write it as in sleep:2@3 or kill%7"
        ) from None
    if point.only < 0 or point.every < 1 or not 0 <= point.seconds < math.inf:
        raise BadSetting("DULY_FAILPOINTS", "a hit counts from 1, and seconds from 0")
    return point


async def hit(place: str) -> None:
    """Run the action of this failpoint if it is armed."""
    if armed and (point := armed.get(place)) is not None and point.is_now():
        if point.action == "sleep":
            await asyncio.sleep(point.seconds)
        else:
            _fail(point, place)


def hit_in_thread(place: str) -> None:
    """The same as `hit` for code that does not run on an event loop."""
    if armed and (point := armed.get(place)) is not None and point.is_now():
        if point.action == "sleep":
            time.sleep(point.seconds)
        else:
            _fail(point, place)


def _fail(point: Failpoint, place: str) -> None:
    if point.action in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if point.action == "kill" else signal.SIGSTOP)
    elif point.action == "drop":
        raise ConnectionResetError(errno.ECONNRESET, f"failpoint {place}")
    elif point.action == "full":
        raise OSError(errno.ENOSPC, f"failpoint {place}: no space left on device")
    else:
        raise FailpointRaised(place)


def arm_from(environment: Mapping[str, str]) -> None:
    """Arm the failpoints of the environment variable DULY_FAILPOINTS."""
    arm(environment.get("DULY_FAILPOINTS", ""))
