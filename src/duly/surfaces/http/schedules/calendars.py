"""`/v1/calendars`: the closed days of rules; set as JSON or from a file, listed and removed."""

from __future__ import annotations

from duly.records.calendar import Calendar, CalendarSpec, CalendarSummary, ChangedCalendar
from duly.services.namespace import Namespace
from duly.surfaces.http.protocol.decoding import check_media, decoded_in_slices
from duly.surfaces.http.protocol.etags import etag
from duly.surfaces.http.protocol.pages import Page, PageQuery, page_of
from duly.surfaces.http.protocol.problems import EmptyBody
from duly.surfaces.http.protocol.request import Request
from duly.surfaces.http.protocol.responses import JSON, Answer
from duly.surfaces.http.protocol.routing import Other, delete, get, put

NAME = "/calendars/{name}"
ICS = "text/calendar"
CREATED = Other(ChangedCalendar, "It is new.")
FILE = {
    "schema": {"type": "string", "description": "an iCalendar file with events of whole days"},
    "example": "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261225\r\n"
    "SUMMARY:Christmas\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
}


@get("/calendars", operation_id="list_calendars")
async def list_(app: Namespace, query: PageQuery) -> Page[CalendarSummary]:
    """List calendars by name, with the number of schedules that use each."""
    found = await app.calendars.list(after=query.cursor or "", limit=query.limit + 1)
    return page_of(found, query.limit, "name")


@get(NAME, operation_id="get_calendar", is_versioned=True)
async def show(app: Namespace, name: str) -> Answer[Calendar]:
    """One calendar with all its closed dates."""
    found = await app.calendars.get(name)
    return Answer(found, headers=etag(found.version))


@put(
    NAME,
    also={201: CREATED},
    operation_id="put_calendar",
    body=CalendarSpec,
    content={ICS: FILE},
    is_versioned=True,
    creates=True,
)
async def upsert(
    app: Namespace, request: Request, name: str, version: int | None
) -> Answer[ChangedCalendar]:
    """Create or replace a calendar, as JSON or as an iCalendar file; an equal one changes nothing.

    Schedules that use it change with it, or 422 names one of which nothing would be left. A file
    replaces the closed dates and keeps the weekend.
    """
    body = await request.body()
    if not body:
        raise EmptyBody
    check_media(request, JSON, ICS)
    if request.media_type == ICS:
        found = await app.calendars.import_ics(name, body, version=version)
    else:
        spec = await decoded_in_slices(body, CalendarSpec, request.shared.turns)
        found = await app.calendars.set(name, spec.closed, weekend=spec.weekend, version=version)
    status = 201 if found.change == "created" else 200
    return Answer(found, status=status, headers=etag(found.version))


@delete(NAME, operation_id="remove_calendar")
async def remove(app: Namespace, name: str, version: int | None) -> None:
    """Remove a calendar that no schedule uses."""
    await app.calendars.remove(name, version=version)


ROUTES = [list_, show, upsert, remove]
