"""What processes of one parent tell one another: a page each, in memory that they share."""

from __future__ import annotations

from struct import Struct
from zlib import crc32

from duly.system import shared_memory

PAGE_BYTES = 1 << 20
"""Memory is taken only where something is written."""
HEAD = Struct("<II")
LOOKS = 5


class SharedMemory:
    """Made before they are started. Nobody waits for anybody: who reads sees if it is whole."""

    def __init__(self, pages: int) -> None:
        self.numbers = range(1, pages + 1)
        self._memory = shared_memory(pages * PAGE_BYTES)

    def write(self, number: int, told: bytes) -> None:
        """Put it on that page; what is too long for one is not told."""
        if HEAD.size + len(told) > PAGE_BYTES:
            return
        head = (number - 1) * PAGE_BYTES
        begins = head + HEAD.size
        self._memory[begins : begins + len(told)] = told
        HEAD.pack_into(self._memory, head, len(told), crc32(told))

    def read(self, number: int) -> bytes:
        """What is on that page; nothing while nobody has written there."""
        head = (number - 1) * PAGE_BYTES
        for _ in range(LOOKS):
            length, check = HEAD.unpack_from(self._memory, head)
            begins = head + HEAD.size
            told = self._memory[begins : min(begins + length, head + PAGE_BYTES)]
            if crc32(told) == check:
                return told
        return b""


class Slot:
    """The page of one of them."""

    def __init__(self, board: SharedMemory, number: int) -> None:
        self._board = board
        self.number = number
        """Which of them it is."""

    def write(self, told: bytes) -> None:
        """Tell the others."""
        self._board.write(self.number, told)

    def others(self) -> list[bytes]:
        """What the others told last."""
        numbers = [each for each in self._board.numbers if each != self.number]
        return [told for each in numbers if (told := self._board.read(each))]
