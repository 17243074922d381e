"""Calendars over HTTP: as JSON and as a file, and in rules."""

from typing import Any

import pytest

import duly
from duly import App
from tests.http.conftest import Client

pytestmark = pytest.mark.requirement("L6")
PATH = "/v1/calendars"
NRW = f"{PATH}/nrw"
FAIR = {"closed": {"2026-08-04": "Town fair"}}
FILE = (
    "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20260804\r\nSUMMARY:Fair\r\n"
    "END:VEVENT\r\nEND:VCALENDAR\r\n"
)
ICS = {"content-type": "text/calendar; charset=utf-8"}
DAILY = {"cron": "0 9 * * *", "tz": "Europe/Berlin", "calendar": "nrw"}


async def test_a_calendar_is_put_shown_listed_and_removed(client: Client) -> None:
    created = await client.put(NRW, json=FAIR)
    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    found = created.json()
    assert (found["change"], found["moved"], found["version"]) == ("created", 0, 1)
    assert (found["closed"], found["weekend"]) == (FAIR["closed"], ["saturday", "sunday"])
    again = await client.put(NRW, json=FAIR)
    assert (again.status_code, again.json()["change"]) == (200, "unchanged")
    shown = await client.get(NRW)
    assert (shown.status_code, shown.headers["etag"]) == (200, '"1"')
    assert shown.json() == {name: found[name] for name in shown.json()}
    (listed,) = (await client.get(PATH)).json()["items"]
    assert (listed["name"], listed["dates"], listed["last_date"], listed["schedules"]) == (
        *("nrw", 1),
        *("2026-08-04", 0),
    )
    assert (await client.delete(NRW)).status_code == 204
    assert (await client.get(NRW)).status_code == 404
    assert (await client.delete(NRW)).status_code == 404


async def test_versions_are_compared(client: Client) -> None:
    await client.put(NRW, json=FAIR, headers={"if-none-match": "*"})
    for headers in ({"if-none-match": "*"}, {"if-match": '"2"'}):
        assert (await client.put(NRW, json={}, headers=headers)).status_code == 412
    assert (await client.delete(NRW, headers={"if-match": '"2"'})).status_code == 412
    assert (await client.put(NRW, json={}, headers={"if-match": '"1"'})).status_code == 200


async def test_a_file_is_put_as_text_calendar(client: Client) -> None:
    created = await client.put(NRW, content=FILE, headers=ICS)
    assert (created.status_code, created.json()["closed"]) == (201, {"2026-08-04": "Fair"})
    refused = await client.put(NRW, content=FILE.replace("0804", "0804T0900"), headers=ICS)
    assert refused.status_code == 422
    assert "line 3: event 'Fair' has a time of day" in refused.json()["detail"]
    other = await client.put(NRW, content=FILE, headers={"content-type": "text/plain"})
    assert other.status_code == 415
    assert "application/json or text/calendar" in other.json()["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"weekend": []}, "closed"),
        ({"weekend": ["monday", "someday"]}, "weekend[1]"),
        ({"closed": {"2026-13-01": ""}}, "closed"),
        ({"closed": {"2026-12-01": "x" * 101}}, "closed"),
        ({"days": []}, "body"),
    ],
)
async def test_bad_input_is_refused(client: Client, body: Any, field: str) -> None:
    answer = await client.put(NRW, json=body)
    assert answer.status_code == 422
    assert answer.json()["field"] == field, answer.text
    assert (await client.put(NRW)).status_code == 400
    assert (await client.get(NRW)).status_code == 404


async def test_rules_name_a_calendar(app: App, client: Client) -> None:
    await client.put(NRW, json=FAIR)
    spec = {"rule": DAILY | {"move": "next"}, "target": "work"}
    put = await client.put("/v1/schedules/daily", json=spec)
    assert put.status_code == 201, put.text
    assert put.json()["rule"] == DAILY | {"move": "next", "dst_gap": "run"}
    several = {"any_of": [{"cron": "0 9 * * *"}, {"every": "1h"}], "calendar": "nrw"}
    both = await client.put("/v1/schedules/both", json={"rule": several, "target": "work"})
    assert both.json()["rule"]["calendar"] == "nrw"
    hourly = {"every": "1h", "tz": "Asia/Tokyo", "calendar": "nrw"}
    third = await client.put("/v1/schedules/hourly", json={"rule": hourly, "target": "work"})
    assert third.json()["rule"] == {**hourly, "every": "3600s", "move": "skip"}
    conflict = await client.delete(NRW)
    assert conflict.status_code == 409
    assert "used by both, daily, hourly" in conflict.json()["detail"]
    mondays = duly.except_(duly.cron("0 9 * * MON"), "nrw")
    await app.schedule("mondays", mondays, "work")
    refused = await client.put(NRW, json={"weekend": ["monday"]})
    assert refused.status_code == 422
    assert "schedule 'mondays'" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (DAILY | {"calendar": "bavaria"}, "calendar"),
        (DAILY | {"move": "later"}, "move"),
        ({"every": "1h", "move": "next"}, "move"),
        ({"every": "1h", "tz": "UTC"}, "tz"),
        ({"cron": "0 9 * * SAT", "calendar": "nrw"}, "calendar"),
        ({"any_of": [DAILY, {"every": "1h"}], "calendar": "nrw"}, "rule"),
    ],
)
async def test_rules_that_name_no_such_thing_are_refused(
    client: Client, rule: dict[str, Any], field: str
) -> None:
    await client.put(NRW, json=FAIR)
    answer = await client.put("/v1/schedules/it", json={"rule": rule, "target": "work"})
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert (await client.get("/v1/schedules/it")).status_code == 404


async def test_previews_say_why(client: Client) -> None:
    await client.put(NRW, json=FAIR)
    await client.put("/v1/schedules/daily", json={"rule": DAILY, "target": "work"})
    explained = (await client.post("/v1/schedules/explain", json={"rule": DAILY, "n": 2})).json()
    preview = (await client.get("/v1/schedules/daily/preview", params={"n": 2})).json()
    assert explained["next"] == preview
    assert preview[1]["local"] == "2026-08-05T09:00:00+02:00"
    assert preview[1]["left_out"] == [
        {
            "at": "2026-08-04T07:00:00Z",
            "local": "2026-08-04T09:00:00+02:00",
            "reason": "Town fair (calendar nrw)",
            "more": 0,
        }
    ]
    moved = DAILY | {"cron": "0 9 4 * *", "move": "next"}
    (first,) = (await client.post("/v1/schedules/explain", json={"rule": moved, "n": 1})).json()[
        "next"
    ]
    assert (first["moved_from"], first["reason"]) == (
        "2026-08-04T09:00:00+02:00",
        "Town fair (calendar nrw)",
    )
