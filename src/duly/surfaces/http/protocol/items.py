"""The items of a large body, an array or lines, split while it arrives.

No part of unlimited size is processed in one step: the size of an item and the number of items are
limited, and a larger body is refused before the rest is read.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import AsyncIterator
from typing import NamedTuple

from starlette.exceptions import HTTPException

from duly.domain import documents
from duly.domain.documents import LARGE, MEMBERS, Twice, Unfit, Walk
from duly.errors import InvalidInput
from duly.surfaces.http.protocol.decoding import DEEPEST
from duly.surfaces.http.protocol.turns import Turns

PART = 65_536
SLICE = 8192
"""Characters, approximately, that are processed in one turn."""
EACH = 64
"""Added to the characters of each item."""
SPACE = " \t\n\r"


class Item(NamedTuple):
    """One item: its JSON, and the error in its members, depth or numbers, if any."""

    data: bytes
    problem: Unfit | None


class Text:
    """The text of an arriving body, from the current position on."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.text = ""
        self.at = 0
        self.ended = False

    async def have(self, count: int) -> None:
        """Read until this many characters follow, or the body ends."""
        missing = count - (len(self.text) - self.at)
        if self.ended or missing <= 0:
            return
        gathered = [self.text[self.at :]]
        while missing > 0 and not self.ended:
            gathered.append(await self._more())
            missing -= len(gathered[-1])
        self.text, self.at = "".join(gathered), 0

    async def _more(self) -> str:
        part = await anext(self._parts, None)
        self.ended = part is None
        try:
            return self._decoder.decode(part or b"", final=self.ended)
        except UnicodeDecodeError as error:
            raise broken(str(error)) from None


async def parts(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The body in small parts, however it was sent."""
    async for sent in stream:
        if len(sent) <= PART:
            yield sent
            continue
        view = memoryview(sent)
        for start in range(0, len(view), PART):
            yield bytes(view[start : start + PART])


class Items:
    """Splits a body into items."""

    def __init__(self, stream: AsyncIterator[bytes], turns: Turns, most: int, longest: int) -> None:
        self._text = Text(parts(stream))
        self._turns = turns
        self._most = most
        self._longest = longest
        self._found: list[Item] = []
        self._work = 0

    async def of_array(self) -> list[Item]:
        """The items of an array."""
        await self._expect("[", "an array")
        if await self._following() == "]":
            self._text.at += 1
        else:
            while True:
                await self._following()
                await self._add(*await self._next())
                if await self._expect(",]", "',' or ']'") == "]":
                    break
        if await self._following():
            raise broken("something follows the array")
        return self._counted()

    async def of_lines(self) -> list[Item]:
        """The items of lines; blank lines are skipped."""
        blank, text = 0, self._text
        while not (text.ended and text.at >= len(text.text)):
            line = await self._line()
            if line.strip(SPACE):
                await self._add(line, None, False)
            else:
                blank += 1
                await self._worked(0)
            if blank > self._most:
                raise InvalidInput("body", f"it has more than {self._most} blank lines")
        return self._counted()

    async def _line(self) -> str:
        text = self._text
        await text.have(LARGE)
        end = text.text.find("\n", text.at, text.at + self._longest + 1)
        if end < 0 and not text.ended:
            await text.have(self._longest + 1)
            end = text.text.find("\n", text.at, text.at + self._longest + 1)
        if end < 0:
            end = len(text.text)
        line, text.at = text.text[text.at : end], end + 1
        return line

    async def _add(self, value: str, walk: Walk | None, small: bool) -> None:
        place = len(self._found)
        if place == self._most:
            raise InvalidInput(
                "body", f"it has more than {self._most} items; give 1 to {self._most}"
            )
        data = value.encode()
        if len(data) > self._longest:
            raise too_long(place, self._longest)
        self._found.append(Item(data, await self._problem(data, value, walk, small)))
        await self._worked(len(value))

    async def _problem(
        self, data: bytes, value: str, walk: Walk | None, small: bool
    ) -> Unfit | None:
        try:
            if walk is not None:
                return walk.problem
            if small:
                documents.check_values(data, DEEPEST)
            elif len(data) <= LARGE:
                documents.check(data, DEEPEST)
            else:
                walk = Walk(value, deepest=DEEPEST)
                await self._turns.through(walk.slices())
                return walk.problem
        except Unfit as error:
            return error
        except ValueError as error:
            raise broken(str(error)) from None
        return None

    async def _next(self) -> tuple[str, Walk | None, bool]:
        """The value that begins here, and the walker that found its end, if one was needed."""
        text = self._text
        await text.have(LARGE)
        window, end = text.text[text.at : text.at + LARGE], 0
        try:
            _, end = MEMBERS.raw_decode(window)
            # A number may continue after the end of the window.
            small = end < len(window) or text.ended
        except (json.JSONDecodeError, RecursionError, Twice):
            small = False
        if small:
            text.at += end
            return window[:end], None, True
        return await self._walked()

    async def _walked(self) -> tuple[str, Walk, bool]:
        text = self._text
        await text.have(self._longest + 1)
        start = text.at
        walk = Walk(text.text, start, self._longest, DEEPEST)
        await self._turns.through(walk.slices())
        if walk.end is None:
            if len(text.text) - start > self._longest:
                raise too_long(len(self._found), self._longest)
            raise broken(f"item {len(self._found)} does not end")
        text.at = walk.end
        return text.text[start : walk.end], walk, False

    async def _following(self) -> str:
        """The next character that is not a space, "" at the end."""
        text = self._text
        while True:
            await text.have(1)
            rest = text.text[text.at : text.at + SLICE]
            if not rest:
                return ""
            skipped = len(rest) - len(rest.lstrip(SPACE))
            text.at += skipped
            if skipped < len(rest):
                return text.text[text.at]
            await self._worked(skipped)

    async def _expect(self, allowed: str, words: str) -> str:
        found = await self._following()
        if not found or found not in allowed:
            if allowed == "[" and found:
                raise InvalidInput("body", f"give an array; this begins with {found!r}")
            raise broken(f"expected {words}, got {found!r}")
        self._text.at += 1
        return found

    async def _worked(self, characters: int) -> None:
        self._work += characters + EACH
        if self._work >= SLICE:
            self._work = 0
            await self._turns.next()

    def _counted(self) -> list[Item]:
        if not self._found:
            raise InvalidInput("body", f"it has no items; give 1 to {self._most}")
        return self._found


def broken(why: str) -> HTTPException:
    """The error for a body that is not JSON."""
    return HTTPException(400, f"the body is not JSON: {why}")


def too_long(place: int, longest: int) -> HTTPException:
    """The error for an item that is too long."""
    return HTTPException(
        413,
        f"[{place}]: it has more than {longest} bytes, the limit for one item; make it shorter",
    )
