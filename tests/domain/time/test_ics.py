"""Closed dates from iCalendar files."""

from datetime import date

import pytest

from duly.domain.time.ics import MOST_BYTES, closed_dates
from duly.errors import InvalidInput

pytestmark = pytest.mark.requirement("L6")
TODAY = date(2026, 11, 15)


def file(*events: str, before: str = "") -> str:
    whole = "".join(f"BEGIN:VEVENT\n{each}\nEND:VEVENT\n" for each in events)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\n{before}{whole}END:VCALENDAR\n"


def dates(*events: str) -> list[str]:
    return [str(each) for each in closed_dates(file(*events), TODAY)]


def years(*events: str) -> list[int]:
    return [each.year for each in closed_dates(file(*events), TODAY)]


def test_events_of_whole_days_close_their_dates() -> None:
    found = closed_dates(
        file(
            "DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227\nSUMMARY:Christmas",
            "DTSTART:20260101\nSUMMARY:New year",
        ),
        TODAY,
    )
    assert found == {
        date(2026, 1, 1): "New year",
        date(2026, 12, 25): "Christmas",
        date(2026, 12, 26): "Christmas",
    }


def test_a_real_file_with_what_does_not_matter_is_read() -> None:
    text = (
        "\ufeffBEGIN:VCALENDAR\r\nPRODID:-//Office//DE\r\nX-WR-CALNAME:Feiertage\r\n"
        "BEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\nBEGIN:STANDARD\r\nDTSTART:19701025T030000\r\n"
        "RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n"
        "BEGIN:VEVENT\r\nUID:1@x\r\nDTSTAMP:20260101T000000Z\r\n"
        'DTSTART;X-A="b:c;d";VALUE=DATE:20261225\r\nDURATION:P1D\r\nTRANSP:TRANSPARENT\r\n'
        "SUMMARY;LANGUAGE=de:1. Weihnachts\r\n tag\\, frei\\nfür alle\r\n"
        "BEGIN:VALARM\r\nTRIGGER:-PT15M\r\nDTSTART:20260101T000000Z\r\nEND:VALARM\r\nEND:VEVENT\r\n"
        "BEGIN:VTODO\r\nDTSTART:20260101T080000Z\r\nEND:VTODO\r\n"
        "BEGIN:VEVENT\r\nSTATUS:CANCELLED\r\nDTSTART;VALUE=DATE:20260704\r\nEND:VEVENT\r\n"
        "END:VCALENDAR\r\n"
    )
    found = closed_dates(text.encode(), TODAY)
    assert closed_dates(text, TODAY) == found
    assert found == {date(2026, 12, 25): "1. Weihnachtstag, frei für alle"}


def test_labels_of_one_date_are_joined_and_cut() -> None:
    two = ("DTSTART:20261225\nSUMMARY:Christmas", "DTSTART:20261225\nSUMMARY:Fair")
    assert closed_dates(file(*two), TODAY) == {date(2026, 12, 25): "Christmas, Fair"}
    (label,) = closed_dates(file(f"DTSTART:20261225\nSUMMARY:{'ä' * 99}"), TODAY).values()
    assert label == "ä" * 50


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("FREQ=YEARLY", [*range(2025, 2047)]),
        ("FREQ=YEARLY;COUNT=7", [*range(2025, 2027)]),
        ("FREQ=YEARLY;UNTIL=20281224", [2025, 2026, 2027]),
        ("FREQ=YEARLY;UNTIL=20281225T000000Z", [2025, 2026, 2027, 2028]),
        ("FREQ=YEARLY;INTERVAL=3;COUNT=4", [2026, 2029]),
        ("freq=yearly;bymonth=12;bymonthday=25;wkst=mo;count=6", [2025]),
    ],
)
def test_an_event_recurs_every_year(rule: str, expected: list[int]) -> None:
    assert years(f"DTSTART:20201225\nRRULE:{rule}") == expected


def test_leap_days_recur_in_leap_years() -> None:
    assert years("DTSTART:20200229\nRRULE:FREQ=YEARLY;COUNT=4") == [2028, 2032]


def test_dates_are_added_and_left_out() -> None:
    event = (
        "DTSTART:20251225\nRRULE:FREQ=YEARLY;COUNT=4\nRDATE;VALUE=DATE:20260101,20260106\n"
        "EXDATE;VALUE=DATE:20261225\nEXDATE:20281225"
    )
    assert dates(event) == ["2025-12-25", "2026-01-01", "2026-01-06", "2027-12-25"]


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ("DTSTART:20261225T090000Z", "line 5: event 'Fair' has a time of day in DTSTART"),
        ("DTSTART;VALUE=DATE-TIME:20261225", "has a time of day"),
        ("DTSTART:20261225\nDTEND:20261225T180000", "line 6: event 'Fair' has a time of day"),
        ("DTSTART:20261225\nDTEND:20261225", "lasts 0 days"),
        ("DTSTART:20261225\nDTEND:20281225", "lasts 731 days; 1 to 300"),
        ("DTSTART:20261225\nDURATION:PT8H", "lasts 'PT8H', not whole days"),
        ("DTSTART:20261225\nDURATION:P0D", "lasts 0 days"),
        ("DTSTART:20261325", "has '20261325' in DTSTART, which is no date"),
        ("DTSTART:2026-12-25", "which is no date"),
        ("DTSTART:20261225\nDTSTART:20261226", "has DTSTART twice"),
        ("DESCRIPTION:x", "line 3: event 'Fair' has no DTSTART"),
        ("DTSTART:20261225\nRRULE:FREQ=WEEKLY", "only FREQ=YEARLY is read"),
        ("DTSTART:20261126\nRRULE:FREQ=YEARLY;BYDAY=4TH", "recurs by BYDAY"),
        ("DTSTART:20261126\nRRULE:FREQ=YEARLY;BYMONTH=5", "recurs on another day"),
        ("DTSTART:20261126\nRRULE:FREQ=YEARLY;COUNT=0", "has the number '0'"),
        ("DTSTART:20261126\nRRULE:FREQ=YEARLY;INTERVAL=x", "has the number 'X'"),
        ("DTSTART:20261126\nEXDATE:20261126T000000Z", "has a time of day in EXDATE"),
        ("DTSTART:20261126\nEXRULE:FREQ=YEARLY", "has EXRULE"),
        ("DTSTART:20261126\nRECURRENCE-ID:20261126", "has RECURRENCE-ID"),
        ("DTSTART:19691231", "is not between 1970 and 9000"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_event_and_line(
    event: str, problem: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        closed_dates(file(f"SUMMARY:Fair\n{event}"), TODAY)
    assert refused.value.field == "ics"
    assert problem in refused.value.problem


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("", "line 0: it is not from BEGIN:VCALENDAR"),
        ("hello", "line 1: 'hello' is no line"),
        ("BEGIN:VEVENT\nEND:VEVENT\n", "line 1: it is not from BEGIN:VCALENDAR"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\n", "line 2: it is not from BEGIN:VCALENDAR"),
        ("BEGIN:VCALENDAR\nEND:VEVENT\n", "END:VEVENT has no BEGIN"),
        ("BEGIN:VCALENDAR\nEND:VCALENDAR\nVERSION:2.0", "line 3: it is not"),
        ("BEGIN:VCALENDAR\nEND:VCALENDAR\n", "it has no event of a whole day"),
        (b"\xff\xfe", "is not text in UTF-8"),
        (b" " * (MOST_BYTES + 1), "give at most"),
        (
            file(*(f"DTSTART:{2000 + n}0101\nDTEND:{2000 + n}1001" for n in range(8))),
            "closes the 2001st date",
        ),
    ],
)
def test_what_is_no_calendar_is_refused(data: bytes | str, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        closed_dates(data, TODAY)
    assert problem in refused.value.problem
