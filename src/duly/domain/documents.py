"""JSON that somebody else wrote: whether it can be taken, found out in slices if it is large.

A small document is checked at once, by parsers in C. The same parsers would keep the event loop
busy for a second with a large one, so that is walked over: a `Walk` stops after every slice.
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
"""Documents with more bytes than this are walked over."""
MARKS_IN_A_SLICE = 1024
LONGEST_INTEGER = 4300
"""Digits of an integer that Python reads."""
STRING = r'"(?:[^"\\]++|\\.)*+"'
# Numbers as short as these are in range; everything plain is passed over, but not without end.
PLAIN = r'(?:[^]["{}0-9-]++|-?[0-9]{1,250}+(?:\.[0-9]{1,50}+)?+(?![0-9.eE+-])){0,2000}+'
MARK = re.compile(
    rf'{PLAIN}(?:([{{[])|([}}\]])|({STRING})(\s*+:)?|(-?[0-9][0-9.eE+-]*+)|(["-]|\Z))?+', re.DOTALL
)
OPENED, CLOSED, TEXT, NAME, NUMBER, BROKEN = 1, 2, 3, 4, 5, 6
STRINGS = re.compile(STRING.encode(), re.DOTALL)
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
ONE_KIND = bytes.maketrans(b"{}", b"[]")


class Unfit(Exception):
    """JSON that cannot be taken; the message says why."""


class Twice(Unfit):
    """An object has a member twice.

    Readers differ in which of them counts, so whoever checks it may not see what another obeys.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"it has {quoted(name)} twice in one object; give it once")


class TooDeep(Unfit):
    """Its arrays and objects are nested too deep."""

    def __init__(self) -> None:
        super().__init__(f"it is nested deeper than {DEPTH_LIMIT}")


class OutOfRange(Unfit):
    """It has a number that is too large."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"it is not valid JSON: {error}")


def check(data: bytes, deepest: int = DEPTH_LIMIT) -> None:
    """Unfit when a document cannot be taken, msgspec's errors when it is no JSON at all."""
    if len(data) <= LARGE:
        check_values(data, deepest)
        check_members(data.decode())
        return
    for _ in checking(data, deepest):
        """All slices at once."""


def checking(data: bytes, deepest: int = DEPTH_LIMIT) -> Iterator[None]:
    """The same in slices, for a large one."""
    skip(data)
    walk = Walk(data.decode(), deepest=deepest)
    yield from walk.slices()
    if walk.problem is not None:
        raise walk.problem


skip = msgspec.json.Decoder(msgspec.Raw).decode
"""Reads JSON without making anything of it: all but its text and the range of its numbers."""


def check_values(data: bytes, deepest: int = DEPTH_LIMIT) -> None:
    """Refuse a small document that is nested too deep, or has a number that is out of range."""
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
        # Each turn takes the innermost level away.
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


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        # Not by looking for each among all: of a hundred thousand that takes minutes.
        raise Twice(Counter(names).most_common(1)[0][0])


# What the numbers are is no matter here, and a long one would take long to read.
MEMBERS = json.JSONDecoder(object_pairs_hook=_each_once, parse_int=len, parse_float=len)


class Walk:
    """A walk over one value of a JSON text, to its end.

    It finds what is wrong with its members, its depth and its numbers. It does not see whether the
    rest is JSON.
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
        """Where the value ends; None if that is not within `most` characters."""
        self.problem: Unfit | None = None
        """What is wrong first."""

    def slices(self) -> Iterator[None]:
        """Walk on, slice by slice."""
        inside: list[set[str] | None] = []
        marks = MARK.finditer(self._text, self._start, self._stop)
        for count, mark in enumerate(marks, 1):
            kind = mark.lastindex
            if kind == OPENED:
                inside.append(set() if mark[OPENED] == "{" else None)
                if len(inside) > self._deepest:
                    self._found(TooDeep())
            elif kind == CLOSED and inside:
                inside.pop()
            elif kind == NAME:
                self._note(inside[-1] if inside else None, mark[TEXT])
            elif kind == NUMBER:
                self._check_number(mark[NUMBER])
            elif kind == BROKEN:
                return
            if not inside and kind is not None:
                self.end = mark.end()
                return
            if kind is None or not count % MARKS_IN_A_SLICE:
                yield

    def _note(self, names: set[str] | None, written: str) -> None:
        if names is None:
            return  # No JSON, which is found elsewhere.
        name = written[1:-1]
        if "\\" in name:
            try:
                name = json.loads(written)
            except ValueError:
                return
        if name in names:
            self._found(Twice(name))
        names.add(name)

    def _check_number(self, written: str) -> None:
        digits = written.removeprefix("-")
        if digits.isdecimal():
            # Longer ones take long to read, and are refused all the same.
            written = "1" if len(digits) <= LONGEST_INTEGER else "1e999"
        try:
            msgspec.json.decode(written)
        except msgspec.ValidationError as error:
            self._found(OutOfRange(error))
        except msgspec.DecodeError:
            return  # No JSON either.

    def _found(self, problem: Unfit) -> None:
        self.problem = self.problem or problem
