"""Reads the closed dates of a calendar from an iCalendar file (RFC 5545), strictly.

Events of whole days close their dates, each with its summary as the label. An event that is not
understood is refused with its name and line: a date that is silently missing is found too late.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple, NoReturn

from duly.domain.time.business_days import LONGEST_CLOSED, LONGEST_LABEL, MOST_CLOSED
from duly.errors import InvalidInput, quoted

MOST_BYTES = 1024 * 1024
YEARS_AHEAD = 20
"""How far an event that recurs without an end is continued."""
DAY = timedelta(days=1)
LINE = re.compile(r'([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:"[^"]*"|[^":;]*))*):(.*)', re.DOTALL)
WHOLE_DAYS = re.compile(r"P(?:([0-9]{1,3})W|([0-9]{1,4})D)")
ESCAPED = re.compile(r"\\(.)")
REFUSED = ("RECURRENCE-ID", "EXRULE")
HARMLESS = ("WKST",)


class Line(NamedTuple):
    """One unfolded line of the file: its number, name, parameters and value."""

    number: int
    name: str
    parameters: str
    value: str


def closed_dates(data: bytes | str, today: date) -> dict[date, str]:
    """The closed dates with their labels; InvalidInput names the line and the event.

    Events that recur are continued for 20 years, and kept from last year on.
    """
    found: dict[date, str] = {}
    for event in _events(_lines(_text(data))):
        label = event.label
        for day in event.days(today):
            known = found.get(day)
            found[day] = label if not known or known == label else _cut(f"{known}, {label}")
            if len(found) > MOST_CLOSED:
                event.refuse(event.number, f"closes the {MOST_CLOSED + 1}st date; no more fit")
    if not found:
        raise InvalidInput("ics", "it has no event of a whole day")
    return dict(sorted(found.items()))


def _text(data: bytes | str) -> str:
    size = len(data)
    if size > MOST_BYTES:
        raise InvalidInput("ics", f"it has {size} bytes; give at most {MOST_BYTES}")
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput("ics", f"it is not text in UTF-8: {error}") from None


def _lines(text: str) -> Iterator[Line]:
    """The lines, each with those that continue it."""
    begun, whole = 0, ""
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if raw[:1] in (" ", "\t") and begun:
            whole += raw[1:]
            continue
        if whole.strip():
            yield _line(begun, whole)
        begun, whole = number, raw
    if whole.strip():
        yield _line(begun, whole)


def _line(number: int, text: str) -> Line:
    found = LINE.fullmatch(text)
    if found is None:
        raise InvalidInput("ics", f"line {number}: {quoted(text)} is no line of a calendar")
    return Line(number, found[1].upper(), found[2].upper(), found[3])


def _events(lines: Iterator[Line]) -> Iterator[Event]:
    """The events; other components, and those within an event, are skipped."""
    path: list[str] = []
    event: list[Line] = []
    last = 0
    for line in lines:
        last = line.number
        if line.name == "BEGIN":
            path.append(line.value.upper())
            if path[0] != "VCALENDAR":
                break
            event = [line] if path == ["VCALENDAR", "VEVENT"] else event
        elif not path:
            break
        elif line.name == "END":
            if path.pop() != line.value.upper():
                raise InvalidInput("ics", f"line {last}: END:{line.value} has no BEGIN before it")
            if event and path == ["VCALENDAR"]:
                yield Event(event)
                event = []
        elif path == ["VCALENDAR", "VEVENT"]:
            event.append(line)
    else:
        if last and not path:
            return
    raise InvalidInput(
        "ics", f"line {last}: it is not from BEGIN:VCALENDAR to END:VCALENDAR; give a whole file"
    )


class Event:
    """One event: the days that it closes."""

    def __init__(self, lines: list[Line]) -> None:
        self.number = lines[0].number
        self._lines = lines[1:]
        summary = self._first("SUMMARY")
        text = "" if summary is None else ESCAPED.sub(_unescaped, summary.value)
        self.label = _cut("".join(each if each.isprintable() else " " for each in text).strip())

    def refuse(self, number: int, problem: str) -> NoReturn:
        """Raise InvalidInput for a line of this event."""
        raise InvalidInput("ics", f"line {number}: event {quoted(self.label)} {problem}")

    def days(self, today: date) -> Iterator[date]:
        """The days that it closes."""
        status = self._first("STATUS")
        if status is not None and status.value.upper() == "CANCELLED":
            return
        for name in REFUSED:
            if (line := self._first(name)) is not None:
                self.refuse(line.number, f"has {name}, which is not understood; remove it")
        start = self._only("DTSTART")
        if start is None:
            self.refuse(self.number, "has no DTSTART")
        begins = self._date(start, start.value)
        length = self._length(begins)
        excluded = {each for each, _ in self._dates("EXDATE")}
        starts = {*self._recurring(begins, today), *(each for each, _ in self._dates("RDATE"))}
        for first in sorted(starts - excluded):
            for number in range(length):
                day = first + number * DAY
                if not 1970 <= day.year < 9000:
                    self.refuse(start.number, f"closes {day}, which is not between 1970 and 9000")
                yield day

    def _length(self, begins: date) -> int:
        end, duration = self._only("DTEND"), self._only("DURATION")
        line, days = end or duration, 1
        if end is not None:
            days = (self._date(end, end.value) - begins).days
        elif duration is not None:
            found = WHOLE_DAYS.fullmatch(duration.value.upper())
            if found is None:
                self.refuse(duration.number, f"lasts {quoted(duration.value)}, not whole days")
            days = int(found[2]) if found[1] is None else 7 * int(found[1])
        if line is not None and not 1 <= days <= LONGEST_CLOSED:
            self.refuse(line.number, f"lasts {days} days; 1 to {LONGEST_CLOSED} are possible")
        return days

    def _recurring(self, begins: date, today: date) -> Iterator[date]:
        rule = self._only("RRULE")
        if rule is None:
            yield begins
            return
        interval, count, until = self._yearly(rule, begins)
        last = min(until or date.max, date(today.year + YEARS_AHEAD, 12, 31))
        met = 0
        for year in range(begins.year, last.year + 1, interval):
            day = _in_year(begins, year)
            # 29 February is no date of other years, and does not count.
            met += day is not None
            if day is None or day > last or (count is not None and met > count):
                continue
            if day.year >= today.year - 1:
                yield day

    def _yearly(self, rule: Line, begins: date) -> tuple[int, int | None, date | None]:
        """The interval, the count and the last day of a rule that recurs every year."""
        parts = dict(each.partition("=")[::2] for each in rule.value.upper().split(";"))
        if parts.pop("FREQ", "") != "YEARLY":
            self.refuse(rule.number, f"recurs by {quoted(rule.value)}; only FREQ=YEARLY is read")
        same = {"BYMONTH": begins.month, "BYMONTHDAY": begins.day}
        for name, own in same.items():
            if name in parts and parts.pop(name) != str(own):
                self.refuse(rule.number, f"recurs on another day than its first, by {name}")
        interval = self._number(rule, parts.pop("INTERVAL", "1"))
        count = None if "COUNT" not in parts else self._number(rule, parts.pop("COUNT"))
        until = None if "UNTIL" not in parts else self._date(rule, parts.pop("UNTIL")[:8])
        if strange := sorted(parts.keys() - {*HARMLESS}):
            self.refuse(rule.number, f"recurs by {strange[0] or 'nothing'}, which is not read")
        return interval, count, until

    def _number(self, line: Line, text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) < 1:
            self.refuse(line.number, f"has the number {quoted(text)}; give 1 to 9999")
        return int(text)

    def _dates(self, name: str) -> Iterator[tuple[date, Line]]:
        for line in self._lines:
            if line.name == name:
                for text in line.value.split(","):
                    yield self._date(line, text), line

    def _date(self, line: Line, text: str) -> date:
        if "T" in text.upper() or "VALUE=DATE-TIME" in line.parameters:
            self.refuse(line.number, f"has a time of day in {line.name}; only whole days close")
        try:
            if not re.fullmatch(r"[0-9]{8}", text):
                raise ValueError(text)
            return date(int(text[:4]), int(text[4:6]), int(text[6:]))
        except ValueError:
            self.refuse(line.number, f"has {quoted(text)} in {line.name}, which is no date")

    def _first(self, name: str) -> Line | None:
        return next((each for each in self._lines if each.name == name), None)

    def _only(self, name: str) -> Line | None:
        found = [each for each in self._lines if each.name == name]
        if len(found) > 1:
            self.refuse(found[1].number, f"has {name} twice")
        return found[0] if found else None


def _in_year(day: date, year: int) -> date | None:
    try:
        return day.replace(year=year)
    except ValueError:
        return None


def _unescaped(found: re.Match[str]) -> str:
    return " " if found[1] in "nN" else found[1]


def _cut(label: str) -> str:
    """The label, cut to the bytes that a calendar keeps."""
    return label.encode()[:LONGEST_LABEL].decode(errors="ignore").strip()
