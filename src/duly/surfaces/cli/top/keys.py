"""The bytes that a terminal sends, as names of keys; a printable character names itself."""

from __future__ import annotations

import codecs
import re

SENT = {
    "up": ("\x1b[A", "\x1bOA"),
    "down": ("\x1b[B", "\x1bOB"),
    "right": ("\x1b[C", "\x1bOC"),
    "left": ("\x1b[D", "\x1bOD"),
    "home": ("\x1b[H", "\x1bOH", "\x1b[1~"),
    "end": ("\x1b[F", "\x1bOF", "\x1b[4~"),
    "page_up": ("\x1b[5~", "\x02"),
    "page_down": ("\x1b[6~", "\x06"),
    "enter": ("\r", "\n"),
    "tab": ("\t",),
    "back_tab": ("\x1b[Z",),
    "escape": ("\x1b",),
    "backspace": ("\x7f", "\x08"),
    "clear": ("\x15",),
}
"""What terminals send for each key that has a name."""
NAMES = {sequence: name for name, sequences in SENT.items() for sequence in sequences}
SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b(?=\x1b)|\x1b[^\[O\x1b]|[^\x1b]", re.DOTALL
)


class KeyReader:
    """Splits what was read into keys; a sequence may arrive in several pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete."""
        text, keys = self._pending + self._decoder.decode(data), list[str]()
        while found := SEQUENCE.match(text):
            keys += _named(found[0])
            text = text[found.end() :]
        self._pending = text
        return keys

    @property
    def is_waiting(self) -> bool:
        """Whether the rest of a sequence is missing, or Escape alone was pressed."""
        return bool(self._pending)

    def flush(self) -> list[str]:
        """The key Escape, if nothing followed it."""
        pending, self._pending = self._pending, ""
        return _named(pending)


def _named(text: str) -> list[str]:
    if text in NAMES:
        return [NAMES[text]]
    if len(text) == 2 and text[0] == "\x1b":
        # Escape, and another key right after it.
        return ["escape", *_named(text[1])]
    return [text] if len(text) == 1 and text.isprintable() else []
