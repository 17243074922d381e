"""Checks of JSON documents from callers, in slices if the document is large.

A small document is checked at once, by parsers in C. With a large document these parsers would
block the event loop for up to a second, so a `Walk` scans it and yields after every slice.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from duly.errors import quoted

DEPTH_LIMIT = 64
LARGE = 8192
"""Documents with more bytes than this are checked in slices."""
MARKS_IN_A_SLICE = 1024
LONGEST_INTEGER = 4300
"""The most digits of an integer that Python parses."""
STRING = r'"(?:[^"\\]++|\\.)*+"'
# Skips text that needs no check, including numbers too short to be out of range. The repetition is
# bounded so that one match, and with it a slice, stays short.
PLAIN = r'(?:[^]["{}0-9-]++|-?[0-9]{1,250}+(?:\.[0-9]{1,50}+)?+(?![0-9.eE+-])){0,2000}+'
MARK = re.compile(
    rf'{PLAIN}(?:([{{[])|([}}\]])|({STRING})(\s*+:)?|(-?[0-9][0-9.eE+-]*+)|(["-]|\Z))?+', re.DOTALL
)
OPENED, CLOSED, TEXT, NAME, NUMBER, BROKEN = 1, 2, 3, 4, 5, 6
STRINGS = re.compile(STRING.encode(), re.DOTALL)
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
ONE_KIND = bytes.maketrans(b"{}", b"[]")


class Unfit(Exception):
    """The document is not accepted; the message says why."""


class Twice(Unfit):
    """An object has a member twice.

    Parsers differ in which one they use, so a receiver could read another value than we checked.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"it has {quoted(name)} twice in one object; give it once")


class TooDeep(Unfit):
    """Arrays and objects are nested too deep."""

    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {DEPTH_LIMIT}")


class OutOfRange(Unfit):
    """A number is too large."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"it is not valid JSON: {error}")


def check(data: bytes, deepest: int = DEPTH_LIMIT) -> None:
    """Check a document; raises Unfit, or an error of msgspec if it is not JSON."""
    if len(data) <= LARGE:
        check_values(data, deepest)
        check_members(data.decode())
        return
    for _ in checking(data, deepest):
        """Run all slices without a pause."""


def checking(data: bytes, deepest: int = DEPTH_LIMIT) -> Iterator[None]:
    """Check a large document as `check` does, and yield after each slice."""
    skip(data)
    walk = Walk(data.decode(), deepest=deepest)
    yield from walk.slices()
    if walk.problem is not None:
        raise walk.problem


skip = msgspec.json.Decoder(msgspec.Raw).decode
"""Checks JSON syntax without building values; UTF-8 and number ranges are not checked."""


def check_values(data: bytes, deepest: int = DEPTH_LIMIT) -> None:
    """Refuse a small document that is nested too deep or has a number out of range."""
    try:
        msgspec.json.decode(data)
    except RecursionError:
        raise TooDeep from None
    except msgspec.ValidationError as error:
        raise OutOfRange(error) from None
    check_depth(data, deepest)


def check_depth(data: bytes, deepest: int = DEPTH_LIMIT) -> None:
    """Refuse JSON that is nested too deep."""
    # Counting brackets is cheap and nearly always enough; only a suspicious document is stripped.
    if data.count(b"[") + data.count(b"{") <= deepest:
        return
    brackets = STRINGS.sub(b"", data).translate(ONE_KIND, NO_BRACKETS)
    for _ in range(deepest):
        # Each iteration removes the innermost level.
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise TooDeep


def check_members(text: str) -> None:
    """Refuse a small document in which an object has a member twice."""
    try:
        MEMBERS.decode(text)
    except RecursionError:
        raise TooDeep from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        # Not names.count for each name: that is quadratic and takes minutes for 100,000 members.
        raise Twice(Counter(names).most_common(1)[0][0])


# The values of numbers are not needed, and parsing a very long integer is slow.
MEMBERS = json.JSONDecoder(object_pairs_hook=_refuse_duplicates, parse_int=len, parse_float=len)


class Walk:
    """A scan of one JSON value, to its end.

    It checks duplicate members, depth and number ranges. It does not check the syntax.
    """

    def __init__(
        self,
        text: str,
        start: int = 0,
        most: int | None = None,
        deepest: int = DEPTH_LIMIT,
    ) -> None:
        self._text, self._start = text, start
        self._stop = len(text) if most is None else start + most
        self._deepest = deepest
        self.end: int | None = None
        """The index after the value; None if it does not end within `most` characters."""
        self.problem: Unfit | None = None
        """The first problem found."""

    def slices(self) -> Iterator[None]:
        """Scan the value, and yield after each slice."""
        open_containers: list[set[str] | None] = []
        marks = MARK.finditer(self._text, self._start, self._stop)
        for count, mark in enumerate(marks, 1):
            kind = mark.lastindex
            if kind == OPENED:
                open_containers.append(set() if mark[OPENED] == "{" else None)
                if len(open_containers) > self._deepest:
                    self._report(TooDeep())
            elif kind == CLOSED and open_containers:
                open_containers.pop()
            elif kind == NAME:
                self._check_duplicate(open_containers[-1] if open_containers else None, mark[TEXT])
            elif kind == NUMBER:
                self._check_number(mark[NUMBER])
            elif kind == BROKEN:
                return
            if not open_containers and kind is not None:
                self.end = mark.end()
                return
            if kind is None or not count % MARKS_IN_A_SLICE:
                yield

    def _check_duplicate(self, names: set[str] | None, written: str) -> None:
        if names is None:
            return  # Not JSON; the syntax check reports it.
        name = written[1:-1]
        if "\\" in name:
            try:
                name = json.loads(written)
            except ValueError:
                return
        if name in names:
            self._report(Twice(name))
        names.add(name)

    def _check_number(self, written: str) -> None:
        digits = written.removeprefix("-")
        if digits.isdecimal():
            # Parsing a very long integer is slow; 1e999 is refused in the same way.
            written = "1" if len(digits) <= LONGEST_INTEGER else "1e999"
        try:
            msgspec.json.decode(written)
        except msgspec.ValidationError as error:
            self._report(OutOfRange(error))
        except msgspec.DecodeError:
            return  # Not JSON; the syntax check reports it.

    def _report(self, problem: Unfit) -> None:
        self.problem = self.problem or problem
