"""Reads an export line by line; errors give the line number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from duly.domain.transfer.entries import KINDS, Ending, Heading, Thing, decode, decode_heading
from duly.domain.transfer.import_checks import check
from duly.errors import InvalidInput

LONGEST_LINE = 64 * 1024 * 1024
BATCH, BATCH_BYTES = 500, 4 * 1024 * 1024
ORDER = {kind: rank for rank, kind in enumerate(KINDS)}
Tell = Callable[[int, str], None]
"""Callback for each skipped line: its number, and why."""
Batch = list[tuple[int, Thing]]
"""Entries of one kind with their line numbers, to be written together."""


class Survey(msgspec.Struct, frozen=True):
    """The result of reading a whole export: its heading, and how many entries can be imported."""

    heading: Heading
    counts: dict[str, int]
    bad: int

    @property
    def total(self) -> int:
        """The number of entries."""
        return sum(self.counts.values())


class Reading:
    """One pass over the lines of an export.

    Raises InvalidInput at the first bad line, unless `tell` is given: then bad lines are reported
    and skipped. With a `survey` that found no bad line, the checks are not repeated.
    """

    def __init__(
        self,
        lines: Iterable[bytes],
        payload_limit: int,
        tell: Tell | None,
        survey: Survey | None = None,
    ) -> None:
        self._lines = ((number, each) for number, each in enumerate(lines, 1) if each.strip())
        self._payload_limit = payload_limit
        self._tell = tell
        self._is_sound = survey is not None and not survey.bad
        self._count = 0
        self._number = 1
        self._last: type[Thing] = next(iter(KINDS))
        self.bad = 0
        self.heading = decode_heading(next(self._lines, (1, b""))[1])

    def survey(self) -> Survey:
        """Read and check all lines."""
        counts = dict.fromkeys(KINDS.values(), 0)
        for _, thing, _ in self.things():
            counts[KINDS[type(thing)]] += 1
        return Survey(self.heading, counts, self.bad)

    def batches(self) -> Iterator[Batch]:
        """Batches of entries of one kind, limited by BATCH and BATCH_BYTES."""
        batch, size = Batch(), 0
        for number, thing, length in self.things():
            is_full = len(batch) >= BATCH or size + length > BATCH_BYTES
            if batch and (is_full or type(batch[0][1]) is not type(thing)):
                yield batch
                batch, size = [], 0
            batch.append((number, thing))
            size += length
        if batch:
            yield batch

    def things(self) -> Iterator[tuple[int, Thing, int]]:
        """Each entry with the number and the length of its line."""
        for number, line in self._lines:
            self._number = number
            try:
                found = self._checked(line)
            except InvalidInput as error:
                self._refuse(line, error)
            else:
                if isinstance(found, Ending):
                    self._end(found)
                    return
                yield self._number, found, len(line)
            self._count += 1
        raise self._cut_off()

    def _checked(self, line: bytes) -> Thing | Ending:
        if len(line) > LONGEST_LINE:
            raise InvalidInput("line", f"it is longer than {LONGEST_LINE} bytes")
        found = decode(line)
        if self._is_sound or isinstance(found, Ending):
            return found
        if ORDER[type(found)] < ORDER[self._last]:
            later, earlier = KINDS[self._last], KINDS[type(found)]
            raise InvalidInput("line", f"{earlier} stand before {later}, which refer to them")
        check(found, self._payload_limit)
        self._last = type(found)
        return found

    def _refuse(self, line: bytes, error: InvalidInput) -> None:
        if not line.endswith(b"\n"):
            raise self._cut_off() from error
        problem = error.problem if error.field == "line" else str(error)
        if self._tell is None:
            raise InvalidInput(f"line {self._number}", problem) from error
        self._tell(self._number, problem)
        self.bad += 1

    def _end(self, ending: Ending) -> None:
        if next(self._lines, None) is not None:
            raise InvalidInput("file", f"there is more after its end in line {self._number}")
        expected = sum(ending.counts.values())
        if expected != self._count:
            raise InvalidInput(
                "file", f"its last line counts {expected} entries, and there are {self._count}"
            )

    def _cut_off(self) -> InvalidInput:
        return InvalidInput(
            "file", f"it was cut off: line {self._number} is not the last of an export"
        )
