"""Status notices to the supervisor of this process: systemd, or the prefork parent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping

from duly.system import send_datagram

Send = Callable[[str], None]
READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"


class Notices:
    """Sends status notices; `alive` is expected every `watchdog` seconds, unless that is None.

    Sending never fails and never blocks, also without a receiver.
    """

    def __init__(self, send: Send, watchdog: float | None) -> None:
        self._send = send
        self.watchdog = watchdog

    def ready(self, status: str) -> None:
        """Report that the process serves."""
        self._send(f"{READY}\nSTATUS={status}")

    def stopping(self) -> None:
        """Report that the process is stopping."""
        self._send(STOPPING)

    def alive(self) -> None:
        """Report that the process does not hang."""
        self._send(ALIVE)


def for_systemd(environment: Mapping[str, str]) -> Notices:
    """Notices to the systemd socket named in the environment, or notices that are discarded."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return Notices(_discard, None)

    def send(message: str) -> None:
        with contextlib.suppress(OSError):
            send_datagram(address, message.encode())

    return Notices(send, _watchdog(environment))


def _watchdog(environment: Mapping[str, str]) -> float | None:
    microseconds = environment.get("WATCHDOG_USEC", "")
    watched_pid = environment.get("WATCHDOG_PID", str(os.getpid()))
    if not microseconds.isdecimal() or int(microseconds) == 0 or watched_pid != str(os.getpid()):
        return None
    return int(microseconds) / 1_000_000


def _discard(_message: str) -> None:
    """Used if the environment names no socket."""
