"""Memory shared by the processes of one parent: each writes its own page, all read every page."""

from __future__ import annotations

from struct import Struct
from zlib import crc32

from duly.system import shared_memory

PAGE_BYTES = 1 << 20
"""Virtual size; the kernel allocates only what is written."""
HEAD = Struct("<II")
LOOKS = 5


class SharedMemory:
    """One page for each child process; created before the fork.

    There is no lock: a checksum shows the reader whether a page is complete.
    """

    def __init__(self, pages: int) -> None:
        self.numbers = range(1, pages + 1)
        self._memory = shared_memory(pages * PAGE_BYTES)

    def write(self, number: int, content: bytes) -> None:
        """Replace the content of a page; content longer than a page is dropped."""
        if HEAD.size + len(content) > PAGE_BYTES:
            return
        head = (number - 1) * PAGE_BYTES
        start = head + HEAD.size
        self._memory[start : start + len(content)] = content
        HEAD.pack_into(self._memory, head, len(content), crc32(content))

    def read(self, number: int) -> bytes:
        """The content of a page; empty if nothing was written or it never reads as complete."""
        head = (number - 1) * PAGE_BYTES
        for _ in range(LOOKS):
            length, check = HEAD.unpack_from(self._memory, head)
            start = head + HEAD.size
            content = self._memory[start : min(start + length, head + PAGE_BYTES)]
            if crc32(content) == check:
                return content
        return b""


class Slot:
    """One process's view: its own page to write, the other pages to read."""

    def __init__(self, shared: SharedMemory, number: int) -> None:
        self._shared = shared
        self.number = number
        """The number of this process's page."""

    def write(self, content: bytes) -> None:
        """Replace the content of this process's page."""
        self._shared.write(self.number, content)

    def others(self) -> list[bytes]:
        """The contents of the other processes' pages, without empty ones."""
        numbers = [each for each in self._shared.numbers if each != self.number]
        return [content for each in numbers if (content := self._shared.read(each))]
