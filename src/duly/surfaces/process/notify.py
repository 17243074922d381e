"""Telling whoever runs this process how it stands: systemd, or a parent of our own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping

from duly.system import send_datagram

Tell = Callable[[str], None]
READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"


class Notices:
    """What is told, and how often it has to be: in half of `watchdog` seconds, if any.

    Nobody listening is no trouble: telling never fails and never waits.
    """

    def __init__(self, tell: Tell, watchdog: float | None) -> None:
        self._tell = tell
        self.watchdog = watchdog

    def ready(self, status: str) -> None:
        """It serves."""
        self._tell(f"{READY}\nSTATUS={status}")

    def stopping(self) -> None:
        """It stops."""
        self._tell(STOPPING)

    def alive(self) -> None:
        """It does not hang."""
        self._tell(ALIVE)


def for_systemd(environment: Mapping[str, str]) -> Notices:
    """As systemd asks for it in the environment, or for nobody."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return Notices(_tell_nobody, None)

    def tell(message: str) -> None:
        with contextlib.suppress(OSError):
            send_datagram(address, message.encode())

    return Notices(tell, _watchdog(environment))


def _watchdog(environment: Mapping[str, str]) -> float | None:
    microseconds = environment.get("WATCHDOG_USEC", "")
    meant = environment.get("WATCHDOG_PID", str(os.getpid()))
    if not microseconds.isdecimal() or int(microseconds) == 0 or meant != str(os.getpid()):
        return None
    return int(microseconds) / 1_000_000


def _tell_nobody(_message: str) -> None:
    """Nobody asked."""
