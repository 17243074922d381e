"""Counts the deliveries that run, by what handlers report to a socket, not by duly's own counts."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duly

PLACE = "LIMIT_SOCKET"
RUN_SECONDS = 0.03


class LimitReceiver:
    """What runs in each process, the most that ever ran at once, and when each began."""

    def __init__(self, place: Path) -> None:
        self.place = str(place)
        self.most = 0
        self.most_of: Counter[str] = Counter()
        """The most that ever ran at once of each key."""
        self.began_on: list[float] = []
        self._inside: Counter[tuple[int, str]] = Counter()
        self._dead: set[int] = set()
        self._changed = threading.Condition()
        self._from = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._from.bind(self.place)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while word := self._from.recv(64).decode():
            with self._changed:
                number, _, key = word[1:].partition(" ")
                process = int(number)
                if word[0] == "+":
                    self.began_on.append(time.monotonic())
                if process not in self._dead:
                    self._inside[process, key] += 1 if word[0] == "+" else -1
                self.most = max(self.most, self._inside.total())
                of_key = sum(many for (_, each), many in self._inside.items() if each == key)
                self.most_of[key] = max(self.most_of[key], of_key)
                self._changed.notify_all()

    def forget(self, process: int) -> None:
        """Count nothing of a process that was killed."""
        with self._changed:
            self._dead.add(process)
            for each in [each for each in self._inside if each[0] == process]:
                del self._inside[each]

    def wait_for_starts(self, count: int, within: float = 60.0) -> None:
        """Wait until at least `count` have begun in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.began_on) >= count, within), (
                f"only {len(self.began_on)} of {count} began"
            )

    def close(self) -> None:
        """End the thread."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(b"", self.place)
        self._reader.join(5)
        self._from.close()


def report(word: str, key: str = "") -> None:
    """Tell the receiver that a delivery began (+) or ended (-) in this process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.sendto(f"{word}{os.getpid()} {key}".encode(), os.environ[PLACE])


def add_limited(app: duly.App) -> None:
    """The handlers `crowded`, `paced` and `keyed`, which report to the receiver."""
    retry = duly.exponential(base=0.01, cap=0.05, attempts=50)

    @app.handler("crowded", in_flight=5, retry=retry)
    async def crowded(_: duly.Delivery[Any]) -> None:
        report("+")
        await asyncio.sleep(RUN_SECONDS)
        report("-")

    @app.handler("paced", rate=50, retry=retry)
    async def paced(_: duly.Delivery[Any]) -> None:
        report("+")
        report("-")

    @app.handler("keyed", limits=duly.per("customer", in_flight=2), retry=retry)
    async def keyed(delivery: duly.Delivery[str]) -> None:
        report("+", delivery.payload)
        await asyncio.sleep(RUN_SECONDS)
        report("-", delivery.payload)
